// The alphabet in which byte-level vocabularies are written: a printable character for each byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::text {

/// The bytes that a text in this alphabet stands for (GPT-2's: printable Latin-1 characters stand
/// for themselves, the other 68 bytes for U+0100 and up). Nothing if a character is not of it.
std::optional<std::string> from_byte_level(std::string_view text);

}  // namespace sluice::text
