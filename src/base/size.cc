#include "base/size.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace sluice {
namespace {

/// Power of 1024 that the suffix stands for, or -1.
int power_of(std::string_view suffix) {
  std::string lower;
  for (const char c : suffix)
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower.empty() || lower == "b") return 0;
  const auto letter = std::string_view("kmgt").find(lower[0]);
  if (letter == std::string_view::npos) return -1;
  const std::string_view rest = std::string_view(lower).substr(1);
  return rest.empty() || rest == "b" || rest == "ib" ? static_cast<int>(letter) + 1 : -1;
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  while (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  const int power = power_of(suffix);
  if (error != std::errc() || power < 0 || !(number > 0)) {
    return fail(ErrorKind::usage, "'{}' is not a size; write it like 64M, 6G or 1.5GiB", text);
  }
  const double bytes = std::ldexp(number, 10 * power);
  if (bytes >= std::ldexp(1.0, 63) || bytes < 1) {
    return fail(ErrorKind::usage, "'{}' is out of range for a size", text);
  }
  return static_cast<std::uint64_t>(bytes);
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

}  // namespace sluice
