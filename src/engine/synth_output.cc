#include "engine/synth_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "io/file.h"

namespace sluice::engine {

Result<OutputFile> OutputFile::create(const std::filesystem::path& path) {
  std::filesystem::path part = path;
  part += ".part";
  const int descriptor = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  const int code = errno;
  OutputFile file(path, std::move(part), descriptor);
  if (descriptor < 0) {
    return fail(io::kind_of_refused_place(code), "{}: the file cannot be made: {}", path.string(),
                io::error_text(code));
  }
  return file;
}

OutputFile::OutputFile(std::filesystem::path path, std::filesystem::path part, int descriptor)
    : path_(std::move(path)), part_(std::move(part)), descriptor_(descriptor) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      part_(std::move(other.part_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(part_.c_str());
}

tl::unexpected<Error> OutputFile::error(std::string_view what, int code) const {
  std::string_view advice;
  if (code == ENOSPC || code == EDQUOT)
    advice = "; make room and start again, it goes on from here";
  if (code == EFBIG) advice = "; the file system does not take files of this size, use another";
  return fail(ErrorKind::drive, "{}: the file {}: {}{}", part_.string(), what,
              std::system_category().message(code), advice);
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  constexpr std::size_t kMaxCall = std::size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t written =
        ::write(descriptor_, bytes.data(), bytes.size() < kMaxCall ? bytes.size() : kMaxCall);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return error("cannot be written", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status OutputFile::extend(std::uint64_t size) {
  if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
    return error(fmt::format("cannot be made {} bytes long", size), errno);
  }
  return {};
}

Status OutputFile::commit() {
  if (::fsync(descriptor_) != 0) return error("cannot be brought to the drive", errno);
#if defined(POSIX_FADV_DONTNEED)
  // A model that was just written must not fill the page cache: the next thing is to measure.
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
#endif
  if (::close(std::exchange(descriptor_, -1)) != 0) return error("cannot be closed", errno);
  if (::rename(part_.c_str(), path_.c_str()) != 0) {
    return error(fmt::format("cannot be renamed to {}", path_.filename().string()), errno);
  }
  return {};
}

Status write_file(const std::filesystem::path& path, std::string_view text) {
  SLUICE_ASSIGN(OutputFile file, OutputFile::create(path));
  SLUICE_TRY(file.write(text));
  return file.commit();
}

}  // namespace sluice::engine
