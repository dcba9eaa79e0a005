#include "text/utf8.h"

namespace sluice::text {
namespace {

struct Lead {
  std::uint8_t size;          // bytes of the character, 0: cannot start one
  std::uint8_t second_first;  // range of the second byte, which keeps out overlong forms,
  std::uint8_t second_last;   // surrogates and values above U+10FFFF
};

Lead lead_of(std::uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Character read_utf8(std::string_view bytes, std::size_t at) {
  using Kind = Utf8Character::Kind;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[at + i]); };
  const Lead lead = lead_of(byte(0));
  if (lead.size == 1) return {Kind::valid, 1, byte(0)};
  if (lead.size == 0) return {Kind::invalid, 1, 0xFFFD};
  // Of a lead byte 1110xxxx three bits less belong to the value than of 110xxxxx, and so on.
  char32_t code = byte(0) & (0x7Fu >> lead.size);
  for (std::uint8_t i = 1; i < lead.size; ++i) {
    if (at + i >= bytes.size()) return {Kind::incomplete, i, 0xFFFD};
    const std::uint8_t first = i == 1 ? lead.second_first : 0x80;
    const std::uint8_t last = i == 1 ? lead.second_last : 0xBF;
    if (byte(i) < first || byte(i) > last) return {Kind::invalid, i, 0xFFFD};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  return {Kind::valid, lead.size, code};
}

std::optional<std::size_t> first_invalid_utf8(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Character character = read_utf8(bytes, at);
    if (character.kind != Utf8Character::Kind::valid) return at;
    at += character.size;
  }
  return std::nullopt;
}

bool is_white_space(char32_t code) {
  if (code < 0x80) return code == 0x20 || (code >= 0x09 && code <= 0x0D);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_blank(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character character = read_utf8(text, at);
    const char32_t code = character.code;
    if (!is_white_space(code) && (code < 0x1C || code > 0x1F)) return false;
    at += character.size;
  }
  return true;
}

std::string Utf8Stream::push(std::string_view bytes) {
  std::string text;
  held_.append(bytes);
  std::size_t at = 0;
  while (at < held_.size()) {
    const Utf8Character character = read_utf8(held_, at);
    if (character.kind == Utf8Character::Kind::incomplete) break;
    if (character.kind == Utf8Character::Kind::valid) {
      text.append(held_, at, character.size);
    } else {
      text.append(kReplacement);
    }
    at += character.size;
  }
  held_.erase(0, at);
  return text;
}

std::string Utf8Stream::finish() {
  if (held_.empty()) return {};
  held_.clear();
  return std::string(kReplacement);
}

}  // namespace sluice::text
