// UTF-8: characters out of bytes, and broken bytes made readable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::text {

/// What one U+FFFD looks like in UTF-8.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// What starts at one place of a byte string.
struct Utf8Character {
  enum class Kind : std::uint8_t {
    valid,       ///< a character: `size` bytes, scalar value `code`
    invalid,     ///< `size` bytes that one U+FFFD stands for (a maximal subpart)
    incomplete,  ///< the bytes end here, inside what could still become a character
  };
  Kind kind;
  std::uint8_t size;  // 1..4
  char32_t code;      // of a valid character, else U+FFFD
};

/// Reads what starts at bytes[at]; `at` must be inside. Overlong forms, surrogates and values above
/// U+10FFFF are invalid.
Utf8Character read_utf8(std::string_view bytes, std::size_t at);

/// Offset of the first byte that is not part of a whole valid character, if there is one.
std::optional<std::size_t> first_invalid_utf8(std::string_view bytes);

/// Unicode White_Space: U+0009-000D, 0020, 0085, 00A0, 1680, 2000-200A, 2028, 2029, 202F, 205F,
/// 3000.
bool is_white_space(char32_t code);

/// True if `text` holds nothing but white space (Python's: White_Space and U+001C-001F).
bool is_blank(std::string_view text);

/// A stream of bytes made into valid UTF-8. However the bytes are cut into push() calls, the texts
/// joined are what the whole gives: each maximal invalid subpart becomes one U+FFFD.
class Utf8Stream {
 public:
  /// The text that is certain now. Holds back at most three bytes, an unfinished character.
  std::string push(std::string_view bytes);
  /// What is held back (as U+FFFD) when no more bytes come. The stream is as new after it.
  std::string finish();

 private:
  std::string held_;
};

}  // namespace sluice::text
