// One writer at a time in a folder.
#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace sluice::engine {

/// Held as long as the object lives. The system takes it back from a process that ends, however
/// that ends, so none is ever stale.
class FolderLock {
 public:
  /// Fails with ErrorKind::usage, at once, when another process (or object) has it; `who` names
  /// that for the message. Where the file system has no locks there is none, and no error.
  static Result<FolderLock> take(const std::filesystem::path& folder, std::string_view who);

  FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace sluice::engine
