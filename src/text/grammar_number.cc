// Numbers of a grammar: digit by digit, and only digits from which a number in the range can
// follow.
#include <algorithm>
#include <array>

#include "text/grammar_leaf.h"

namespace sluice::text {
namespace {

struct NumberMode {
  enum Value : std::uint32_t {
    start,
    minus,     // after the sign
    zero,      // a single 0 before the point
    whole,     // digits before the point
    point,     // after the point
    fraction,  // digits behind the point: `count` of them
    exponent,  // after the e
    exponent_sign,
    exponent_digit,  // one digit
    negative = 16,   // added to all of them
  };
};

// Most digits before and behind the point of a number without a range, and after its e. With them
// every number is finite.
constexpr std::uint32_t kFreeDigits = 15;

constexpr auto kPowers = [] {
  std::array<std::uint64_t, 19> powers{1};
  for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * 10;
  return powers;
}();

/// The magnitudes of one sign, in units.
struct Magnitudes {
  std::uint64_t least = 1;
  std::uint64_t most = 0;
  bool none() const { return least > most; }
};

Magnitudes magnitudes(const NumberRange& range, bool negative) {
  const auto magnitude = [](std::int64_t value) {
    return static_cast<std::uint64_t>(value < 0 ? -value : value);
  };
  if (negative) {
    if (range.lowest >= 0) return {};
    return {range.highest < 0 ? magnitude(range.highest) : 1, magnitude(range.lowest)};
  }
  if (range.highest < 0) return {};
  return {range.lowest > 0 ? magnitude(range.lowest) : 0, magnitude(range.highest)};
}

/// Whether `value` units are in the range, or more digits, each in a smaller place than `unit`,
/// could bring it there.
bool reaches(const Magnitudes& allowed, std::uint64_t value, std::uint64_t unit) {
  return value <= allowed.most && value + (unit - 1) >= allowed.least;
}

/// Whether digits before the point can still lead into the range: with each further digit they
/// count ten times as much.
bool whole_reaches(const NumberRange& range, const Magnitudes& allowed, std::uint64_t value) {
  const std::uint64_t unit = kPowers[range.digits];
  for (std::uint64_t more = 1; value * more <= allowed.most / unit; more *= 10) {
    if (reaches(allowed, value * more * unit, more * unit)) return true;
    if (value == 0) break;  // 0 takes no further digit
  }
  return false;
}

std::uint64_t units(const NumberRange& range, const LeafState& state) {
  return state.value * kPowers[range.digits - state.count];
}

LeafStep ended_or_more(const NumberRange& range, const LeafState& state, bool negative, bool more) {
  const Magnitudes allowed = magnitudes(range, negative);
  const std::uint64_t value = units(range, state);
  if (value < allowed.least || value > allowed.most) return LeafStep::more;
  return more ? LeafStep::more_or_end : LeafStep::end;
}

std::uint32_t sign_of(bool negative) { return negative ? std::uint32_t{NumberMode::negative} : 0u; }

/// A digit before the point.
LeafStep whole_digit(const NumberRange& range, LeafState& state, std::uint32_t digit,
                     bool negative) {
  const Magnitudes allowed = magnitudes(range, negative);
  if (allowed.none()) return LeafStep::dead;
  state.value = state.value * 10 + digit;
  state.mode = (state.value == 0 ? NumberMode::zero : NumberMode::whole) + sign_of(negative);
  if (!whole_reaches(range, allowed, state.value)) return LeafStep::dead;
  const bool longer = state.value > 0 && state.value * 10 <= allowed.most / kPowers[range.digits];
  return ended_or_more(range, state, negative, longer || range.digits > 0);
}

LeafStep fraction_digit(const NumberRange& range, LeafState& state, std::uint32_t digit,
                        bool negative) {
  if (state.count == range.digits) return LeafStep::dead;
  state.value = state.value * 10 + digit;
  ++state.count;
  state.mode = NumberMode::fraction + sign_of(negative);
  const std::uint64_t unit = kPowers[range.digits - state.count];
  if (!reaches(magnitudes(range, negative), units(range, state), unit)) return LeafStep::dead;
  return ended_or_more(range, state, negative, state.count < range.digits);
}

/// A number without a range; `count` is of the digits in this part of it.
LeafStep free_step(LeafState& state, Symbol symbol) {
  const bool digit = symbol >= '0' && symbol <= '9';
  const auto to = [&](std::uint32_t mode, LeafStep step) {
    state.count = mode == state.mode ? state.count + 1 : 1;
    state.mode = mode;
    return step;
  };
  switch (state.mode) {
    case NumberMode::start:
      if (symbol == '-') return to(NumberMode::minus, LeafStep::more);
      [[fallthrough]];
    case NumberMode::minus:
      if (!digit) return LeafStep::dead;
      return to(symbol == '0' ? NumberMode::zero : NumberMode::whole, LeafStep::more_or_end);
    case NumberMode::whole:
    case NumberMode::fraction:
      if (digit && state.count == kFreeDigits) return LeafStep::dead;
      if (digit) return to(state.mode, LeafStep::more_or_end);
      [[fallthrough]];
    case NumberMode::zero:
      if (symbol == '.' && state.mode != NumberMode::fraction)
        return to(NumberMode::point, LeafStep::more);
      if (symbol == 'e' || symbol == 'E') return to(NumberMode::exponent, LeafStep::more);
      return LeafStep::dead;
    case NumberMode::point:
      return digit ? to(NumberMode::fraction, LeafStep::more_or_end) : LeafStep::dead;
    case NumberMode::exponent:
      if (symbol == '+' || symbol == '-') return to(NumberMode::exponent_sign, LeafStep::more);
      [[fallthrough]];
    case NumberMode::exponent_sign:
      return digit ? to(NumberMode::exponent_digit, LeafStep::more_or_end) : LeafStep::dead;
    case NumberMode::exponent_digit:
      return digit ? to(NumberMode::exponent_digit + 1, LeafStep::end) : LeafStep::dead;
    default:
      return LeafStep::dead;
  }
}

}  // namespace

LeafStep advance_number(const NumberRange& range, LeafState& state, Symbol symbol) {
  if (range.exponent) return free_step(state, symbol);
  const bool negative = state.mode >= NumberMode::negative;
  const std::uint32_t mode = negative ? state.mode - NumberMode::negative : state.mode;
  const bool digit = symbol >= '0' && symbol <= '9';
  const std::uint32_t value = digit ? static_cast<std::uint32_t>(symbol - '0') : 0;
  if (mode == NumberMode::start && symbol == '-') {
    state.mode = NumberMode::minus + NumberMode::negative;
    return magnitudes(range, true).none() ? LeafStep::dead : LeafStep::more;
  }
  if (mode == NumberMode::start || mode == NumberMode::minus || mode == NumberMode::whole) {
    if (digit) return whole_digit(range, state, value, negative);
    if (mode != NumberMode::whole) return LeafStep::dead;
  }
  if (mode == NumberMode::zero || mode == NumberMode::whole) {
    if (symbol != '.' || range.digits == 0) return LeafStep::dead;
    state.mode = NumberMode::point + sign_of(negative);
    // What is whole and above the range already cannot come back to it.
    const std::uint64_t unit = kPowers[range.digits];
    const bool reached = reaches(magnitudes(range, negative), state.value * unit, unit);
    return reached ? LeafStep::more : LeafStep::dead;
  }
  if (mode == NumberMode::point || mode == NumberMode::fraction) {
    return digit ? fraction_digit(range, state, value, negative) : LeafStep::dead;
  }
  return LeafStep::dead;
}

}  // namespace sluice::text
