// Arrays on disk as NumPy reads them (.npy, format version 1.0).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace sluice::cli {

/// The header: magic, version, and a dictionary padded so that the data begins at a multiple of
/// 64 bytes. `descr` is "<f4" or "<i4".
std::string npy_header(std::string_view descr, std::span<const std::uint64_t> shape);

/// A file that takes an array in pieces, in any order. It appears under its name when it is
/// complete; until then it has a temporary name in the same folder, and goes away if never
/// finished. What is never written reads as zero.
class NpyFile {
 public:
  /// Whether create() can be expected to work, without making anything. Fails with
  /// ErrorKind::usage.
  static Status check(const std::filesystem::path& path);

  /// Elements have 4 bytes. Fails with ErrorKind::usage if the file cannot be made.
  static Result<NpyFile> create(const std::filesystem::path& path, std::string_view descr,
                                std::vector<std::uint64_t> shape);
  NpyFile(NpyFile&& other) noexcept { swap(other); }
  NpyFile& operator=(NpyFile&& other) noexcept {
    swap(other);
    return *this;
  }
  ~NpyFile();

  /// Puts `bytes` at element number `first` of the array. Fails with ErrorKind::drive.
  Status put(std::uint64_t first, std::span<const std::byte> bytes);
  template <class Element>
  Status put(std::uint64_t first, std::span<const Element> elements) {
    static_assert(sizeof(Element) == 4);
    return put(first, std::as_bytes(elements));
  }

  /// Gives the file its name. Fails with ErrorKind::drive.
  Status finish();

 private:
  NpyFile() = default;
  void swap(NpyFile& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(temporary_, other.temporary_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(data_offset_, other.data_offset_);
  }

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::uint64_t data_offset_ = 0;
};

}  // namespace sluice::cli
