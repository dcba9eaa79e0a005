// What becomes of a character that is no token.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::text {

/// Of a vocabulary that is written in characters, not in bytes: a token for each byte, or one for
/// all that is unknown.
struct UnknownCharacters {
  UnknownCharacters() { bytes.fill(-1); }

  std::array<std::int32_t, 256> bytes;  ///< the tokens <0x00> to <0xFF>, or -1
  std::int32_t unknown = -1;            ///< the token for the rest, or -1: there is none
  bool fused = true;                    ///< one `unknown` for characters that follow each other

  bool has_bytes_of(std::string_view character) const {
    for (const char byte : character) {
      if (bytes[static_cast<std::uint8_t>(byte)] < 0) return false;
    }
    return true;
  }
  /// Whether there is a token for it at all.
  bool covers(std::string_view character) const { return unknown >= 0 || has_bytes_of(character); }

  /// Calls `take(id)` for the tokens of a character that covers(). `is_first`: the token before is
  /// not `unknown`.
  template <class Take>
  void write(std::string_view character, bool is_first, Take take) const {
    if (!has_bytes_of(character)) {
      if (is_first || !fused) take(unknown);
      return;
    }
    for (const char byte : character) take(bytes[static_cast<std::uint8_t>(byte)]);
  }
};

}  // namespace sluice::text
