#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace sluice::text {
namespace {

constexpr std::size_t kCharacters = 256 + 68;

constexpr bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/// The byte of each character below U+0144, or -1.
constexpr std::array<std::int16_t, kCharacters> bytes_by_character() {
  std::array<std::int16_t, kCharacters> bytes{};
  bytes.fill(-1);
  unsigned next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned character = is_printable(byte) ? byte : next++;
    bytes[character] = static_cast<std::int16_t>(byte);
  }
  return bytes;
}

}  // namespace

std::optional<std::string> from_byte_level(std::string_view text) {
  static constexpr auto kBytes = bytes_by_character();
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character character = read_utf8(text, at);
    if (character.kind != Utf8Character::Kind::valid || character.code >= kCharacters ||
        kBytes[character.code] < 0) {
      return std::nullopt;
    }
    bytes += static_cast<char>(kBytes[character.code]);
    at += character.size;
  }
  return bytes;
}

}  // namespace sluice::text
