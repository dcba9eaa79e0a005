#include "server/state_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "io/file.h"
#include "server/file_descriptor.h"
#include "store/checkpoint.h"

namespace sluice::server {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOwnersFile = 0600;
constexpr mode_t kOwnersFolder = 0700;

tl::unexpected<Error> not_made(const fs::path& path, int error) {
  return fail(io::kind_of_refused_place(error), "--state-dir: {}: cannot be made: {}",
              path.string(), io::error_text(error));
}

/// A model's files are read only to Sluice: nothing is to lie, or to be removed, among them.
Status expect_no_model(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (name != "config.json" && !store::is_weights_name(name)) continue;
    return fail(ErrorKind::usage,
                "--state-dir: {}: holds a model ({}); give a folder for the server alone",
                folder.string(), name);
  }
  if (!error) return {};
  return fail(ErrorKind::drive, "--state-dir: {}: cannot be read: {}", folder.string(),
              error.message());
}

}  // namespace

Status make_state_folder(const fs::path& folder) {
  // Without the slash at its end, which would make it a parent of its own.
  const fs::path path = folder.has_filename() ? folder : folder.parent_path();
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error) return not_made(path.parent_path(), error.value());
  if (::mkdir(path.c_str(), kOwnersFolder) == 0) return {};
  if (errno != EEXIST) return not_made(path, errno);
  if (!fs::is_directory(path, error)) {
    return fail(ErrorKind::usage, "--state-dir: {}: is there and is no folder; give another name",
                path.string());
  }
  return expect_no_model(path);
}

Status make_private_file(const fs::path& file) {
  const FileDescriptor made(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnersFile));
  if (made.is_open()) return {};
  if (errno != EEXIST) return not_made(file, errno);
  // It is not opened: to close it again would end this process's locks on it.
  struct stat status = {};
  if (::lstat(file.c_str(), &status) != 0) return not_made(file, errno);
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorKind::usage,
                "--state-dir: {}: is there and is no file; move it away, or give another folder",
                file.string());
  }
  const bool others_may = (status.st_mode & static_cast<mode_t>(~(S_IFMT | kOwnersFile))) != 0;
  if (others_may && status.st_uid == ::geteuid()) ::chmod(file.c_str(), kOwnersFile);
  return {};
}

}  // namespace sluice::server
