// Files that appear under their names only when they are complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"

namespace sluice::engine {

/// A file being written beside its name, as "<name>.part". What is not committed is removed.
/// Failures are ErrorKind::drive and name the file.
class OutputFile {
 public:
  static Result<OutputFile> create(const std::filesystem::path& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  /// Makes the file `size` bytes long; what was not written is a hole and reads as zero.
  Status extend(std::uint64_t size);
  /// Brings all bytes to the drive and gives the file its name.
  Status commit();

 private:
  OutputFile(std::filesystem::path path, std::filesystem::path part, int descriptor);
  tl::unexpected<Error> error(std::string_view what, int code) const;

  std::filesystem::path path_;
  std::filesystem::path part_;
  int descriptor_;
};

/// Writes a small file at once.
Status write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace sluice::engine
