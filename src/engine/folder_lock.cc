#include "engine/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace sluice::engine {

Result<FolderLock> FolderLock::take(const std::filesystem::path& folder, std::string_view who) {
  FolderLock lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.descriptor_ < 0) return lock;  // whoever writes there says better what is wrong
  while (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) break;
    return fail(ErrorKind::usage,
                "{}: another {} is writing into this folder; wait until it has ended, or give "
                "another folder",
                folder.string(), who);
  }
  return lock;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace sluice::engine
