#include "io/system.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

namespace sluice::io {

// Model files are larger than 4 GiB: a 32-bit offset would wrap silently.
static_assert(sizeof(off_t) == 8);

int System::open(const char* path, bool direct) const {
  // O_NONBLOCK: opening a pipe without a writer would hang for ever. It has no meaning for regular
  // files, so it is taken off again.
  int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  if (direct) flags |= O_DIRECT;
  int descriptor;
  do {
    descriptor = ::open(path, flags);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) return -errno;
  const int status = ::fcntl(descriptor, F_GETFL);
  if (status < 0 || ::fcntl(descriptor, F_SETFL, status & ~O_NONBLOCK) < 0) {
    const int error = errno;
    ::close(descriptor);
    return -error;
  }
  return descriptor;
}

void System::close(int descriptor) const { ::close(descriptor); }

int System::describe(int descriptor, FileFacts& facts) const {
  struct stat basic;
  if (::fstat(descriptor, &basic) != 0) return -errno;
  facts.mode = basic.st_mode;
  facts.size = static_cast<std::uint64_t>(basic.st_size);
  facts.device = basic.st_dev;
  facts.inode = basic.st_ino;
  facts.direct_alignment = 0;
#ifdef STATX_DIOALIGN
  struct statx more;
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &more) == 0 &&
      (more.stx_mask & STATX_DIOALIGN) != 0) {
    facts.direct_alignment = more.stx_dio_offset_align;
  }
#endif
  return 0;
}

std::int64_t System::pread(int descriptor, std::byte* to, std::size_t length,
                           std::uint64_t offset) const {
  if (offset > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) return -EINVAL;
  const ssize_t got = ::pread(descriptor, to, length, static_cast<off_t>(offset));
  return got < 0 ? -errno : got;
}

void System::drop_cache(int descriptor, std::uint64_t offset, std::uint64_t length) const {
  // Advice only: where a file system does not take it, nothing is lost but memory of the system.
  static_cast<void>(::posix_fadvise(descriptor, static_cast<off_t>(offset),
                                    static_cast<off_t>(length), POSIX_FADV_DONTNEED));
}

const std::byte* System::map(int descriptor, std::uint64_t length, int& error) const {
  void* mapping = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, descriptor, 0);
  if (mapping == MAP_FAILED) {
    error = errno;
    return nullptr;
  }
  return static_cast<const std::byte*>(mapping);
}

void System::unmap(const std::byte* mapping, std::uint64_t length) const {
  ::munmap(const_cast<std::byte*>(mapping), length);
}

std::int64_t System::copy_mapped(std::byte* to, const std::byte* from, std::size_t length) const {
  // A plain copy would be killed by SIGBUS. The kernel copies for us and reports instead.
  const iovec here{to, length};
  const iovec there{const_cast<std::byte*>(from), length};
  const ssize_t got = ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0);
  return got < 0 ? -errno : got;
}

void System::drop_mapped(const std::byte* from, std::uint64_t length) const {
  ::madvise(const_cast<std::byte*>(from), length, MADV_DONTNEED);
}

std::unique_ptr<Ring> System::make_ring(unsigned entries, int& error) const {
  return make_kernel_ring(entries, error);
}

const System& operating_system() {
  static const System system;
  return system;
}

}  // namespace sluice::io
