#include "io/file.h"

#include <sys/stat.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "io/read_fully.h"

namespace sluice::io {
namespace {

const char* kind_of_file(std::uint32_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "something else";
}

tl::unexpected<Error> open_error(const std::filesystem::path& path, int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR: {
      std::error_code ignored;
      const bool dangling = std::filesystem::is_symlink(path, ignored);
      return fail(ErrorKind::model_files, "{}: {}", path.string(),
                  dangling ? "the symbolic link leads to no file; download the file again"
                           : "no such file");
    }
    case EACCES:
    case EPERM:
      return fail(ErrorKind::model_files, "{}: no permission to read this file", path.string());
    case ENXIO:
      return fail(ErrorKind::model_files, "{}: a socket or a device, expected a regular file",
                  path.string());
    case EMFILE:
    case ENFILE:
      return fail(ErrorKind::model_files,
                  "{}: too many open files; raise the limit (ulimit -n) and try again",
                  path.string());
    case ELOOP:
    case ENAMETOOLONG:
      return fail(ErrorKind::model_files, "{}: {}", path.string(), error_text(error));
    default:
      return fail(ErrorKind::drive, "{}: opening the file failed: {} (errno {})", path.string(),
                  error_text(error), error);
  }
}

}  // namespace

std::string error_text(int error) { return std::system_category().message(error); }

ErrorKind kind_of_refused_place(int error) {
  for (const int of_drive : {EIO, ENOSPC, EDQUOT, ENXIO, ENODEV, ETIMEDOUT, ESTALE}) {
    if (error == of_drive) return ErrorKind::drive;
  }
  return ErrorKind::usage;
}

Result<File> File::open(const std::filesystem::path& path, const System& system) {
  // The system would stop at the null byte and open another file than the one that was named.
  if (path.native().find('\0') != std::string::npos) {
    return fail(ErrorKind::model_files, "a file name contains a null byte");
  }
  const int descriptor = system.open(path.c_str(), false);
  if (descriptor < 0) return open_error(path, -descriptor);
  File file(path, descriptor, system);
  const int described = system.describe(descriptor, file.facts_);
  if (described < 0) return open_error(path, -described);
  if (!S_ISREG(file.facts_.mode)) {
    return fail(ErrorKind::model_files, "{}: {}, expected a regular file", path.string(),
                kind_of_file(file.facts_.mode));
  }
  return file;
}

File::File(std::filesystem::path path, int descriptor, const System& system)
    : path_(std::move(path)), descriptor_(descriptor), system_(&system) {}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      system_(other.system_),
      facts_(other.facts_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(system_, other.system_);
  std::swap(facts_, other.facts_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) system_->close(descriptor_);
}

Status File::read_exact(std::uint64_t offset, std::span<std::byte> to) const {
  if (offset > size() || to.size() > size() - offset) {
    return fail(ErrorKind::model_files,
                "{}: {} bytes at offset {} lie outside the file of {} bytes", path_.string(),
                to.size(), offset, size());
  }
  const ReadOutcome outcome = read_fully(*system_, descriptor_, to.data(), to.size(), offset);
  if (!outcome.complete(to.size())) {
    return tl::unexpected(read_error(path_, offset, to.size(), outcome));
  }
  return {};
}

}  // namespace sluice::io
