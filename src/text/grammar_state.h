// A text on its way through a grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/grammar.h"
#include "text/grammar_leaf.h"

namespace sluice::text {

/// All the ways in which what was read so far fits the grammar, each a stack. A symbol is only
/// taken if something follows it that ends the text well, within kGrammarDepth.
class GrammarState {
 public:
  /// Where a schema lets a text be read in more ways than this, it is given up.
  static constexpr std::size_t kMostThreads = Grammar::kMostWays;

  /// Before the first symbol. The grammar must be closed without a fault, and outlive the state.
  explicit GrammarState(const Grammar& grammar);

  /// Sets `next` to the state after one more symbol; false if the symbol does not fit. `next` is
  /// another state, whose memory is used again.
  bool step(Symbol symbol, GrammarState& next) const;

  /// Whether the text may end here.
  bool may_end() const { return accepts_; }
  /// Whether it must.
  bool must_end() const { return accepts_ && threads_.empty(); }
  bool is_too_ambiguous() const { return overflow_; }

  /// In how many ways what was read so far fits.
  std::size_t ways() const { return threads_.size(); }

  /// Equal for states that go on in the same way.
  std::string key() const;

  /// The leaf that all continuations begin in, if it is only one.
  const GrammarNode* only_leaf() const {
    return threads_.size() == 1 && !accepts_ ? &(*grammar_)[threads_[0].leaf] : nullptr;
  }
  /// What key() has of that leaf.
  std::string leaf_key() const;

 private:
  /// What follows a node: in the sequence or repeat `node`, the child number `at`.
  struct Link {
    GrammarId node;
    std::uint32_t at;
    std::uint32_t depth;
    std::shared_ptr<const Link> below;
    std::size_t hash;  // of all the stack from here on, so that different ones are told at once
  };
  using Stack = std::shared_ptr<const Link>;
  struct Thread {
    GrammarId leaf;
    std::uint32_t depth;
    LeafState state;
    Stack below;
  };

  static Stack on(GrammarId node, std::uint32_t at, std::uint32_t depth, const Stack& below);
  static bool same(const Stack& a, const Stack& b);
  bool fits(GrammarId node, std::uint32_t depth) const;
  void enter(GrammarId id, std::uint32_t depth, const Stack& below);
  void enter_child(GrammarId id, std::uint32_t at, std::uint32_t depth, const Stack& below);
  void go_on(const Stack& stack);
  void add(Thread thread);

  const Grammar* grammar_;
  std::vector<Thread> threads_;
  bool accepts_ = false;
  bool overflow_ = false;
};

}  // namespace sluice::text
