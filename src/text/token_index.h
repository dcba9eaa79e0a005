// The tokens of a vocabulary in the order of their bytes, to find those that a grammar allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/grammar_state.h"
#include "text/token_mask.h"
#include "text/tokenizer.h"

namespace sluice::text {

/// Immutable, so that any number of threads may use one.
class TokenIndex {
 public:
  /// Of the tokens that text can become. The tokenizer must outlive the index.
  explicit TokenIndex(const Tokenizer& tokenizer);

  const Tokenizer& tokenizer() const { return *tokenizer_; }

  /// Allows the tokens whose bytes the grammar takes from `state` on: those with a quote in them,
  /// without, or all. (In a string, only the former can leave it.) False if it is too
  /// ambiguous.
  bool allow_quoted(const GrammarState& state, TokenMask& mask) const {
    return allow(quoted_, state, mask);
  }
  bool allow_unquoted(const GrammarState& state, TokenMask& mask) const {
    return allow(unquoted_, state, mask);
  }
  bool allow(const GrammarState& state, TokenMask& mask) const {
    return allow_quoted(state, mask) && allow_unquoted(state, mask);
  }

  std::uint64_t memory_bytes() const;
  /// What memory_bytes() will be at most.
  static std::uint64_t most_bytes(std::size_t vocabulary) {
    return sizeof(TokenIndex) + vocabulary * sizeof(Entry);
  }

 private:
  struct Entry {
    std::int32_t id;
    std::uint16_t shared;  // leading bytes that are the same as those of the entry before
  };
  using Entries = std::vector<Entry>;
  Entries sorted(bool quoted) const;
  bool allow(const Entries& entries, const GrammarState& state, TokenMask& mask) const;

  const Tokenizer* tokenizer_;
  Entries quoted_, unquoted_;
};

}  // namespace sluice::text
