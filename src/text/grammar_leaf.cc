#include "text/grammar_leaf.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::text {
namespace {

using Kind = GrammarNode::Kind;

/// Narrows the spellings to those with this symbol next. False if there is none.
bool narrow(const GrammarNode& node, LeafState& state, Symbol symbol) {
  const std::size_t at = state.count;
  const auto first = node.spellings.begin() + state.begin;
  const auto last = node.spellings.begin() + state.end;
  const auto before = [at](const Symbols& spelling, Symbol value) {
    return spelling.size() <= at || spelling[at] < value;
  };
  const auto behind = [at](Symbol value, const Symbols& spelling) {
    return spelling.size() > at && value < spelling[at];
  };
  const auto from = std::lower_bound(first, last, symbol, before);
  const auto to = std::upper_bound(from, last, symbol, behind);
  state.begin = static_cast<std::uint32_t>(from - node.spellings.begin());
  state.end = static_cast<std::uint32_t>(to - node.spellings.begin());
  ++state.count;
  return from != to;
}

/// Whether one of the spellings is what was read: as the shortest it comes first.
bool is_spelled(const GrammarNode& node, const LeafState& state) {
  return state.begin < state.end && node.spellings[state.begin].size() == state.count;
}

LeafStep advance_literal(const GrammarNode& node, LeafState& state, Symbol symbol) {
  if (!narrow(node, state, symbol)) return LeafStep::dead;
  if (!is_spelled(node, state)) return LeafStep::more;
  const bool longer = state.end - state.begin > 1;
  return longer ? LeafStep::more_or_end : LeafStep::end;
}

// ----- strings

struct StringMode {
  enum Value : std::uint32_t {
    // Inside a character: which bytes may follow, by kFollowing.
    one_left,
    two_left,
    three_left,
    two_left_e0,  // no overlong forms
    two_left_ed,  // no surrogates
    three_left_f0,
    three_left_f4,
    plain,          // between characters
    begin,          // before the first quote
    escape,         // after a backslash
    hex,            // + digits that are there, 0 to 3; `value` has them
    low = hex + 4,  // after a high surrogate: a backslash must follow
    low_u,          // its u
    low_hex,        // + digits that are there
  };
};

struct Following {
  Symbol least, most;
  std::uint32_t next;
};
constexpr Following kFollowing[] = {
    {0x80, 0xBF, StringMode::plain},    {0x80, 0xBF, StringMode::one_left},
    {0x80, 0xBF, StringMode::two_left}, {0xA0, 0xBF, StringMode::one_left},
    {0x80, 0x9F, StringMode::one_left}, {0x90, 0xBF, StringMode::two_left},
    {0x80, 0x8F, StringMode::two_left},
};

int hex_value(Symbol symbol) {
  if (symbol >= '0' && symbol <= '9') return symbol - '0';
  if (symbol >= 'a' && symbol <= 'f') return symbol - 'a' + 10;
  if (symbol >= 'A' && symbol <= 'F') return symbol - 'A' + 10;
  return -1;
}

/// A character begins: counts it, as far as counting matters.
bool count_character(const GrammarNode& node, LeafState& state) {
  if (node.most != GrammarNode::kNoLimit) {
    if (state.count >= node.most) return false;
    ++state.count;
  } else {
    state.count = std::min(state.count + 1, node.least);
  }
  return true;
}

/// The first byte of a character in UTF-8.
bool lead(LeafState& state, Symbol symbol) {
  if (symbol < 0x80) return symbol >= 0x20;
  if (symbol < 0xC2 || symbol > 0xF4) return false;
  state.mode = symbol < 0xE0    ? StringMode::one_left
               : symbol == 0xE0 ? StringMode::two_left_e0
               : symbol == 0xED ? StringMode::two_left_ed
               : symbol < 0xF0  ? StringMode::two_left
               : symbol == 0xF0 ? StringMode::three_left_f0
               : symbol == 0xF4 ? StringMode::three_left_f4
                                : StringMode::three_left;
  return true;
}

bool escape(LeafState& state, Symbol symbol) {
  if (symbol == 'u') {
    state.mode = StringMode::hex;
    state.value = 0;
    return true;
  }
  state.mode = StringMode::plain;
  constexpr std::string_view kSimple = "\"\\/bfnrt";
  return symbol < 0x80 && kSimple.find(static_cast<char>(symbol)) != std::string_view::npos;
}

/// One of four digits of an escaped UTF-16 unit; `low`: of the second unit of a pair, which is DC00
/// to DFFF. Nothing else is.
bool hex(LeafState& state, Symbol symbol, bool low) {
  const int digit = hex_value(symbol);
  if (digit < 0) return false;
  const std::uint32_t place = state.mode - (low ? StringMode::low_hex : StringMode::hex);
  state.value = state.value * 16 + static_cast<std::uint64_t>(digit);
  if (place < 3) {
    ++state.mode;
    if (place == 0) return !low || digit == 0xD;
    return place == 2 || (state.value >= 0xDC && state.value <= 0xDF) == low;
  }
  const bool high = !low && state.value >= 0xD800 && state.value < 0xDC00;
  state.mode = high ? StringMode::low : StringMode::plain;
  state.value = 0;
  return true;
}

bool inside_string(const GrammarNode& node, LeafState& state, Symbol symbol) {
  if (state.mode < StringMode::plain) {
    const Following& following = kFollowing[state.mode];
    state.mode = following.next;
    return symbol >= following.least && symbol <= following.most;
  }
  switch (state.mode) {
    case StringMode::plain:
      if (!count_character(node, state)) return false;
      if (symbol != '\\') return lead(state, symbol);
      state.mode = StringMode::escape;
      return true;
    case StringMode::escape:
      return escape(state, symbol);
    case StringMode::low:
      state.mode = StringMode::low_u;
      return symbol == '\\';
    case StringMode::low_u:
      state.mode = StringMode::low_hex;
      return symbol == 'u';
    default:
      return hex(state, symbol, state.mode >= StringMode::low_hex);
  }
}

LeafStep advance_string(const GrammarNode& node, LeafState& state, Symbol symbol) {
  if (state.mode == StringMode::begin) {
    state.mode = StringMode::plain;
    return symbol == '"' ? LeafStep::more : LeafStep::dead;
  }
  if (state.mode == StringMode::plain && symbol == '"') {
    return state.count < node.least || is_spelled(node, state) ? LeafStep::dead : LeafStep::end;
  }
  if (node.spellings.empty()) {
    return inside_string(node, state, symbol) ? LeafStep::more : LeafStep::dead;
  }
  // Names that must differ from others are compared byte by byte, so they have no escapes.
  LeafState inner = state;
  if (symbol == '\\' || !inside_string(node, inner, symbol)) return LeafStep::dead;
  state.mode = inner.mode;
  if (state.begin < state.end && !narrow(node, state, symbol)) {
    state.begin = state.end = state.count = 0;  // differs from all: no more to compare
  }
  return LeafStep::more;
}

bool is_limited(const GrammarNode& node) {
  return node.least > 0 || node.most != GrammarNode::kNoLimit;
}

/// Any bytes; with limits, whole characters, since these are counted.
LeafStep advance_text(const GrammarNode& node, LeafState& state, Symbol symbol) {
  if (!is_limited(node)) return LeafStep::more_or_end;
  if (state.mode < StringMode::plain) {
    if (!inside_string(node, state, symbol)) return LeafStep::dead;
  } else {
    if (!count_character(node, state)) return LeafStep::dead;
    if (symbol >= 0x80 && !lead(state, symbol)) return LeafStep::dead;
  }
  const bool may_end = state.mode == StringMode::plain && state.count >= node.least;
  return may_end ? LeafStep::more_or_end : LeafStep::more;
}

/// A space, or a new line with what indents it: whoever loves white space comes to an end.
LeafStep advance_whitespace(const GrammarNode& node, LeafState& state, Symbol symbol) {
  if (state.mode == 0) {
    state.mode = 1;
    if (symbol == ' ') return LeafStep::end;
    return symbol == '\n' ? LeafStep::more_or_end : LeafStep::dead;
  }
  if ((symbol != ' ' && symbol != '\t') || state.count == node.most) return LeafStep::dead;
  return ++state.count == node.most ? LeafStep::end : LeafStep::more_or_end;
}

}  // namespace

LeafState begin_leaf(const GrammarNode& node) {
  LeafState state;
  if (node.kind == Kind::string) state.mode = StringMode::begin;
  if (node.kind == Kind::text) state.mode = StringMode::plain;
  state.end = static_cast<std::uint32_t>(node.spellings.size());
  return state;
}

bool may_be_empty(const GrammarNode& node) {
  if (node.kind == Kind::literal) return !node.spellings.empty() && node.spellings[0].empty();
  return node.kind == Kind::whitespace || (node.kind == Kind::text && node.least == 0);
}

LeafStep advance(const GrammarNode& node, LeafState& state, Symbol symbol) {
  if (node.kind == Kind::literal) return advance_literal(node, state, symbol);
  if (symbol >= kMarker) return LeafStep::dead;
  switch (node.kind) {
    case Kind::string:
      return advance_string(node, state, symbol);
    case Kind::number:
      return advance_number(node.range, state, symbol);
    case Kind::whitespace:
      return advance_whitespace(node, state, symbol);
    case Kind::text:
      return advance_text(node, state, symbol);
    default:
      break;
  }
  SLUICE_CHECK(false);  // not a leaf
  return LeafStep::dead;
}

}  // namespace sluice::text
