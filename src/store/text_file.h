// Small files of text: read whole, with a limit, and with a word on what they are when they are
// not what their name says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"

namespace sluice::store {

/// Zero bytes that follow a text, for parsers that look ahead.
inline constexpr std::size_t kTextPadding = 64;

/// A text in memory, with kTextPadding zero bytes behind it. Its room can be used again.
class PaddedText {
 public:
  std::string_view view() const { return {room_.get(), size_}; }
  /// The text and its padding.
  std::size_t padded_size() const { return size_ + kTextPadding; }
  /// Makes room for `size` bytes, contents unspecified, and returns it. The padding is zero.
  std::span<std::byte> resize(std::size_t size);

 private:
  std::unique_ptr<char[]> room_;
  std::size_t capacity_ = 0;  // of room_
  std::size_t size_ = 0;
};

/// Reads the whole of a file of at most `limit` bytes. Fails with ErrorKind::model_files when it is
/// missing, empty, larger, or a Git-LFS pointer.
Result<PaddedText> read_padded(const std::filesystem::path& path, std::uint64_t limit);

/// What a file is that was expected to be a model file and begins with `start`, if it can be told,
/// and what to do: "is a Git-LFS pointer, not the file itself; run `git lfs pull` ...". Else "".
std::string_view foreign_format(std::string_view start);

/// As many bytes as foreign_format() needs.
inline constexpr std::size_t kFormatBytes = 64;

bool is_utf8(std::string_view text);

}  // namespace sluice::store
