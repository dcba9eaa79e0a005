// Holds the tokens of an answer to a grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/token_index.h"

namespace sluice::text {

/// One answer on its way. Before each token, allowed() says which may come; push() takes it.
class TokenConstraint {
 public:
  /// `end_ids` end the answer, where the grammar lets it end, and are no part of it. The index must
  /// outlive the constraint; the grammar must be closed without a fault.
  TokenConstraint(std::shared_ptr<const Grammar> grammar, const TokenIndex& index,
                  std::span<const std::int32_t> end_ids);

  /// Never empty. Good until the next call. Fails with ErrorKind::usage if the grammar can be read
  /// in too many ways here, or no token of the vocabulary goes on with it.
  Result<const TokenMask*> allowed();

  /// Whether this token ends the answer.
  bool ends(std::int32_t id) const;
  /// Takes a token that was allowed and does not end the answer.
  Status push(std::int32_t id);
  /// Whether the answer is whole as it stands.
  bool may_end() const { return state_.may_end(); }
  /// Nothing can follow but the end.
  bool is_over() const { return state_.must_end(); }

  /// Bytes that a constraint holds at most, beside its grammar.
  static std::uint64_t most_bytes(std::size_t vocabulary) {
    return (kMostMasks + 2) * (vocabulary / 8 + 1024);
  }

 private:
  static constexpr std::size_t kMostMasks = 64;
  using Masks = std::unordered_map<std::string, TokenMask>;

  bool find_text(TokenMask& mask);
  bool find(TokenMask& mask);

  std::shared_ptr<const Grammar> grammar_;
  const TokenIndex* index_;
  std::vector<std::int32_t> end_ids_;
  GrammarState state_, next_;
  Masks masks_;   // by the state's key
  Masks inside_;  // by the leaf's key: tokens that stay inside of a string
};

}  // namespace sluice::text
