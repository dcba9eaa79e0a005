#include "cli/npy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <system_error>

#include "base/check.h"
#include "base/size.h"

namespace sluice::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are written as they lie");

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPrefixBytes = 10;  // magic, version, length of the dictionary

std::string message_of(int error) { return std::generic_category().message(error); }

}  // namespace

std::string npy_header(std::string_view descr, std::span<const std::uint64_t> shape) {
  std::string dictionary =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (", descr);
  for (const std::uint64_t size : shape) dictionary += fmt::format("{}, ", size);
  if (shape.size() > 1) dictionary.resize(dictionary.size() - 2);
  dictionary += "), }";
  const std::size_t total = round_up(kPrefixBytes + dictionary.size() + 1, kAlignment);
  dictionary.resize(total - kPrefixBytes - 1, ' ');
  dictionary += '\n';
  std::string header = "\x93NUMPY";
  header += '\x01';
  header += '\x00';
  header += static_cast<char>(dictionary.size() & 0xff);
  header += static_cast<char>(dictionary.size() >> 8);
  return header + dictionary;
}

Status NpyFile::check(const std::filesystem::path& path) {
  // The finished file takes the place of what is there: never that of a device, pipe or folder.
  std::error_code ignored;
  const auto there = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    return fail(ErrorKind::usage, "{}: is there already and is no regular file", path.string());
  }
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, ignored)) {
    return fail(ErrorKind::usage, "{}: cannot be written: there is no folder {}", path.string(),
                folder.string());
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    return fail(ErrorKind::usage, "{}: cannot be written: {}: {}", path.string(), folder.string(),
                message_of(errno));
  }
  return {};
}

Result<NpyFile> NpyFile::create(const std::filesystem::path& path, std::string_view descr,
                                std::vector<std::uint64_t> shape) {
  SLUICE_TRY(check(path));
  NpyFile file;
  file.path_ = path;
  file.temporary_ = path;
  file.temporary_ += fmt::format(".{}.part", ::getpid());
  file.descriptor_ =
      ::open(file.temporary_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
  if (file.descriptor_ < 0) {
    return fail(ErrorKind::usage, "{}: cannot be written: {}", path.string(), message_of(errno));
  }
  const std::string header = npy_header(descr, shape);
  std::uint64_t bytes = header.size();
  std::uint64_t elements = 1;
  for (const std::uint64_t size : shape) elements *= size;
  bytes += 4 * elements;
  SLUICE_TRY(file.put(0, std::as_bytes(std::span(header))));
  file.data_offset_ = header.size();
  if (::ftruncate(file.descriptor_, static_cast<off_t>(bytes)) != 0) {
    return fail(ErrorKind::drive, "{}: no room for {}: {}", path.string(), format_size(bytes),
                message_of(errno));
  }
  return file;
}

NpyFile::~NpyFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

Status NpyFile::put(std::uint64_t first, std::span<const std::byte> bytes) {
  std::uint64_t offset = data_offset_ + first * 4;
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return fail(ErrorKind::drive, "{}: cannot write at byte {}: {}", temporary_.string(), offset,
                  written == 0 ? "nothing was taken" : message_of(errno));
    }
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status NpyFile::finish() {
  SLUICE_CHECK(descriptor_ >= 0);
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_.c_str());
    return fail(ErrorKind::drive, "{}: cannot be completed: {}", path_.string(), message_of(error));
  }
  return {};
}

}  // namespace sluice::cli
