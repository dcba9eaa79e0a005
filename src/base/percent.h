// Percent-encoding: "%C3" for a byte that a text cannot have as it is (RFC 3986).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// The bytes that a text stands for. None where a '%' is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace sluice
