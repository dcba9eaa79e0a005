// A regular file, open for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/result.h"
#include "io/system.h"

namespace sluice::io {

/// Owns one descriptor. For headers and small files; weights go through a Reader.
class File {
 public:
  /// Opens a regular file; symbolic links are followed. Fails with ErrorKind::model_files when
  /// there is no such file, it may not be read, or it is a folder, pipe, socket or device; with
  /// ErrorKind::drive when the drive fails. `system` must outlive the file.
  static Result<File> open(const std::filesystem::path& path,
                           const System& system = operating_system());

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  /// Bytes in the file when it was opened.
  std::uint64_t size() const { return facts_.size; }
  const FileFacts& facts() const { return facts_; }
  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }

  /// Fills `to` with the bytes from `offset` on, through the page cache. Fails with
  /// ErrorKind::model_files when the range does not lie inside the file as it was opened, with
  /// ErrorKind::drive when the drive fails or the file has become shorter since. Thread-safe.
  Status read_exact(std::uint64_t offset, std::span<std::byte> to) const;

 private:
  File(std::filesystem::path path, int descriptor, const System& system);

  std::filesystem::path path_;
  int descriptor_;
  const System* system_;
  FileFacts facts_;
};

/// "Input/output error": what the system calls this errno. Thread-safe.
std::string error_text(int error);

/// What an errno about a folder or file that is to be made at a place that the user named means:
/// ErrorKind::drive when the drive is full or fails, else ErrorKind::usage.
ErrorKind kind_of_refused_place(int error);

}  // namespace sluice::io
