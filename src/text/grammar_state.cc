#include "text/grammar_state.h"

#include <algorithm>
#include <utility>

namespace sluice::text {
namespace {

using Kind = GrammarNode::Kind;

template <class Number>
void append_number(std::string& key, Number number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void append_leaf(std::string& key, GrammarId leaf, const LeafState& state) {
  append_number(key, leaf);
  append_number(key, state.mode);
  append_number(key, state.count);
  append_number(key, state.begin);
  append_number(key, state.end);
  append_number(key, state.value);
}

}  // namespace

GrammarState::GrammarState(const Grammar& grammar) : grammar_(&grammar) {
  enter(grammar.root(), 0, nullptr);
}

bool GrammarState::step(Symbol symbol, GrammarState& next) const {
  next.grammar_ = grammar_;
  next.threads_.clear();
  next.accepts_ = false;
  next.overflow_ = overflow_;
  for (const Thread& thread : threads_) {
    LeafState state = thread.state;
    const LeafStep step = advance((*grammar_)[thread.leaf], state, symbol);
    if (step == LeafStep::dead) continue;
    if (step != LeafStep::end) next.add({thread.leaf, thread.depth, state, thread.below});
    if (step != LeafStep::more) next.go_on(thread.below);
  }
  return next.accepts_ || !next.threads_.empty();
}

GrammarState::Stack GrammarState::on(GrammarId node, std::uint32_t at, std::uint32_t depth,
                                     const Stack& below) {
  std::size_t hash = below == nullptr ? 0 : below->hash;
  for (const std::uint32_t part : {node, at, depth}) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return std::make_shared<const Link>(Link{node, at, depth, below, hash});
}

// Stacks that come from one parent share all but the newest links.
bool GrammarState::same(const Stack& a, const Stack& b) {
  const Link* left = a.get();
  const Link* right = b.get();
  while (left != right) {
    if (left == nullptr || right == nullptr || left->hash != right->hash) return false;
    if (left->node != right->node || left->at != right->at || left->depth != right->depth) {
      return false;
    }
    left = left->below.get();
    right = right->below.get();
  }
  return true;
}

void GrammarState::add(Thread thread) {
  for (const Thread& each : threads_) {
    if (each.leaf == thread.leaf && each.depth == thread.depth && each.state == thread.state &&
        same(each.below, thread.below)) {
      return;
    }
  }
  if (threads_.size() == kMostThreads) {
    overflow_ = true;
    return;
  }
  threads_.push_back(std::move(thread));
}

/// Whether the node can be ended within kGrammarDepth.
bool GrammarState::fits(GrammarId node, std::uint32_t depth) const {
  const std::uint32_t height = (*grammar_)[node].height;
  return height <= kGrammarDepth && depth + height <= kGrammarDepth;
}

/// Begins a node at which `depth` levels are open.
void GrammarState::enter(GrammarId id, std::uint32_t depth, const Stack& below) {
  const GrammarNode& node = (*grammar_)[id];
  if (!fits(id, depth) || overflow_) return;
  if (node.nests) ++depth;
  switch (node.kind) {
    case Kind::choice:
      for (const GrammarId child : node.children) enter(child, depth, below);
      return;
    case Kind::sequence:
      return enter_child(id, 0, depth, below);
    case Kind::repeat:
      if (node.least == 0) go_on(below);
      if (node.most > 0) enter_child(id, 0, depth, below);
      return;
    default:
      add({id, depth, begin_leaf(node), below});
      if (may_be_empty(node)) go_on(below);
      return;
  }
}

/// Begins child number `at` of a sequence, or the round number `at` of a repeat.
void GrammarState::enter_child(GrammarId id, std::uint32_t at, std::uint32_t depth,
                               const Stack& below) {
  const GrammarNode& node = (*grammar_)[id];
  if (node.kind == Kind::repeat) {
    const GrammarId child = node.children[at == 0 ? 0 : 1];
    if (!fits(child, depth)) return;
    // Without a limit, rounds beyond the least number are all the same.
    const bool counts = node.most != GrammarNode::kNoLimit || at < node.least;
    const std::uint32_t done = counts ? at + 1 : std::max(node.least, 1u);
    return enter(child, depth, on(id, done, depth, below));
  }
  if (at == node.children.size()) return go_on(below);
  // Nothing is kept of a sequence for its last child, so that lists do not grow stacks.
  if (at + 1 == node.children.size()) return enter(node.children[at], depth, below);
  enter(node.children[at], depth, on(id, at + 1, depth, below));
}

/// A node has ended: what is behind it begins.
void GrammarState::go_on(const Stack& stack) {
  if (stack == nullptr) {
    accepts_ = true;
    return;
  }
  const GrammarNode& node = (*grammar_)[stack->node];
  if (node.kind == Kind::repeat) {
    if (stack->at >= node.least) go_on(stack->below);
    if (stack->at >= node.most) return;
  }
  enter_child(stack->node, stack->at, stack->depth, stack->below);
}

std::string GrammarState::key() const {
  std::string key;
  key.push_back(accepts_ ? 1 : 0);
  for (const Thread& thread : threads_) {
    append_leaf(key, thread.leaf, thread.state);
    for (const Link* link = thread.below.get(); link != nullptr; link = link->below.get()) {
      append_number(key, link->node);
      append_number(key, link->at);
      append_number(key, link->depth);
    }
    append_number(key, thread.depth);
    append_number(key, ~GrammarId{0});  // no node has this number
  }
  return key;
}

std::string GrammarState::leaf_key() const {
  std::string key;
  append_leaf(key, threads_[0].leaf, threads_[0].state);
  return key;
}

}  // namespace sluice::text
