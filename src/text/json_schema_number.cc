#include "text/json_schema_number.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

namespace sluice::text {
namespace {

constexpr std::int64_t kMostWhole = 999'999'999'999'999'999;
constexpr std::int64_t kMostUnits = std::int64_t{1} << 53;  // doubles have them all
constexpr std::uint32_t kMostDigits = 6;

struct Bound {
  double value = 0;
  bool exclusive = false;
};

/// The tighter of two keywords.
Result<std::optional<Bound>> bound(const Json& schema, const std::string& path, bool upper) {
  std::optional<Bound> tightest;
  for (const bool exclusive : {false, true}) {
    const std::string_view name = upper ? (exclusive ? "exclusiveMaximum" : "maximum")
                                        : (exclusive ? "exclusiveMinimum" : "minimum");
    const auto found = schema.find(name);
    if (found == schema.end()) continue;
    if (!found->is_number()) {
      return fail(ErrorKind::usage, "{}.{}: must be a number", path, name);
    }
    const Bound next = {found->get<double>(), exclusive};
    const bool tighter =
        !tightest || (upper ? next.value <= tightest->value : next.value >= tightest->value);
    if (tighter) tightest = next;
  }
  return tightest;
}

/// The lowest number of units that is not below the bound.
std::int64_t lowest_units(const Bound& bound, double unit, std::int64_t most) {
  const double scaled = bound.value * unit;
  if (scaled > static_cast<double>(most)) return most + 1;
  if (scaled < -static_cast<double>(most)) return -most;
  std::int64_t units = std::llround(scaled);
  // The quotient is rounded as the text with these digits is when it is read.
  const auto fits = [&](std::int64_t count) {
    const double value = static_cast<double>(count) / unit;
    return bound.exclusive ? value > bound.value : value >= bound.value;
  };
  while (!fits(units)) ++units;
  while (fits(units - 1)) --units;
  return std::clamp(units, -most, most + 1);
}

}  // namespace

Result<NumberRange> number_range(const Json& schema, const std::string& path, bool whole) {
  SLUICE_ASSIGN(const auto low, bound(schema, path, false));
  SLUICE_ASSIGN(const auto high, bound(schema, path, true));
  NumberRange range;
  if (!whole && !low && !high) {
    range.exponent = true;
    range.highest = 1;
    return range;
  }
  const std::int64_t most = whole ? kMostWhole : kMostUnits;
  const double largest = std::max(std::abs(low ? low->value : 0), std::abs(high ? high->value : 0));
  range.digits = whole ? 0 : kMostDigits;
  double unit = whole ? 1 : 1e6;
  for (; range.digits > 0 && largest * unit > static_cast<double>(most); unit /= 10) --range.digits;
  range.lowest = low ? lowest_units(*low, unit, most) : -most;
  // The same seen from the other side.
  range.highest = high ? -lowest_units({-high->value, high->exclusive}, unit, most) : most;
  if (range.lowest > range.highest) {
    return fail(ErrorKind::usage, "{}: leaves no {} between its minimum and its maximum", path,
                whole ? "whole number"
                      : fmt::format("number with {} digits behind the point", range.digits));
  }
  return range;
}

}  // namespace sluice::text
