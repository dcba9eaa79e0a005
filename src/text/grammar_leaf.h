// The parts of a grammar that take symbols: how far one is, and what the next symbol does.
#pragma once

#include <compare>
#include <cstdint>

#include "text/grammar.h"

namespace sluice::text {

/// How far a leaf of a grammar is. What the fields say is the leaf's business.
struct LeafState {
  std::uint32_t mode = 0;
  std::uint32_t count = 0;  ///< symbols, characters or digits so far, as far as that matters
  std::uint32_t begin = 0;  ///< spellings[begin .. end) begin with what was read
  std::uint32_t end = 0;
  std::uint64_t value = 0;  ///< a number's digits so far
  auto operator<=>(const LeafState&) const = default;
};

enum class LeafStep : std::uint8_t {
  dead,         ///< the symbol does not fit
  more,         ///< it fits, and more must follow
  more_or_end,  ///< more may follow
  end,          ///< nothing may follow
};

/// `node` must be a leaf (no choice, sequence or repeat).
LeafState begin_leaf(const GrammarNode& node);
bool may_be_empty(const GrammarNode& node);
LeafStep advance(const GrammarNode& node, LeafState& state, Symbol symbol);

/// The part of advance() for numbers, which is long.
LeafStep advance_number(const NumberRange& range, LeafState& state, Symbol symbol);

}  // namespace sluice::text
