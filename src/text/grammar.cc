#include "text/grammar.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice::text {
namespace {

using Kind = GrammarNode::Kind;

constexpr std::uint32_t kNever = UINT32_MAX;  // the height of what no text is

}  // namespace

Symbols symbols_of(std::string_view bytes) {
  Symbols symbols;
  for (const char byte : bytes) symbols.push_back(static_cast<unsigned char>(byte));
  return symbols;
}

GrammarId Grammar::add(GrammarNode node) {
  std::sort(node.spellings.begin(), node.spellings.end());
  nodes_.push_back(std::move(node));
  return static_cast<GrammarId>(nodes_.size() - 1);
}

GrammarId Grammar::literal(std::string_view bytes) { return literal(symbols_of(bytes)); }

GrammarId Grammar::literal(Symbols symbols) {
  GrammarNode node = {Kind::literal};
  node.spellings.push_back(std::move(symbols));
  return add(std::move(node));
}

GrammarId Grammar::sequence(std::vector<GrammarId> children) {
  return add({Kind::sequence, std::move(children)});
}

GrammarId Grammar::choice(std::vector<GrammarId> children) {
  return add({Kind::choice, std::move(children)});
}

void Grammar::set_children(GrammarId id, std::vector<GrammarId> children) {
  nodes_[id].children = std::move(children);
}

Symbol Grammar::marker(std::int32_t token) {
  const auto found = std::find(markers_.begin(), markers_.end(), token);
  const auto at = static_cast<std::size_t>(found - markers_.begin());
  if (found == markers_.end()) markers_.push_back(token);
  return static_cast<Symbol>(kMarker + at);
}

Grammar::Fault Grammar::close(GrammarId root) {
  if (nodes_.size() > kMostNodes) return Fault::too_large;
  root_ = root;
  find_heights();
  if (const Fault fault = check_choices(); fault != Fault::none) return fault;
  return nodes_[root].height > kGrammarDepth ? Fault::nothing_fits : Fault::none;
}

std::uint32_t Grammar::height_of(const GrammarNode& node) const {
  std::uint32_t height = 0;
  switch (node.kind) {
    case Kind::choice:
      height = kNever;
      for (const GrammarId child : node.children) height = std::min(height, nodes_[child].height);
      break;
    case Kind::sequence:
      for (const GrammarId child : node.children) height = std::max(height, nodes_[child].height);
      break;
    case Kind::repeat:
      if (node.least > 0) height = nodes_[node.children[0]].height;
      if (node.least > 1) height = std::max(height, nodes_[node.children[1]].height);
      if (node.least > node.most) height = kNever;
      break;
    case Kind::literal:
      if (node.spellings.empty()) height = kNever;
      break;
    case Kind::string:
      if (node.least > node.most) height = kNever;
      break;
    case Kind::number:
      if (node.range.lowest > node.range.highest) height = kNever;
      break;
    case Kind::whitespace:
    case Kind::text:
      break;
  }
  return node.nests && height != kNever ? height + 1 : height;
}

// The least solution: heights only fall, from "never", until nothing changes. Children come mostly
// before their parents, so it takes few rounds; what needs more levels than kGrammarDepth stays
// unusable anyway.
void Grammar::find_heights() {
  for (GrammarNode& node : nodes_) node.height = kNever;
  bool changed = true;
  while (changed) {
    changed = false;
    for (GrammarNode& node : nodes_) {
      const std::uint32_t height = height_of(node);
      changed = changed || height != node.height;
      node.height = height;
    }
  }
}

// Choices within choices are entered recursively, without a symbol in between, so there must be an
// end to them, and a near one. Everything else that recursion can go through begins with a symbol:
// the bracket of an array or object.
Grammar::Fault Grammar::check_choices() const {
  enum class Seen : std::uint8_t { no, open, done };
  std::vector<Seen> seen(nodes_.size(), Seen::no);
  std::vector<std::size_t> depth(nodes_.size(), 0);  // of choices from here on, once done
  std::vector<std::pair<GrammarId, std::size_t>> path;
  for (GrammarId start = 0; start < nodes_.size(); ++start) {
    if (nodes_[start].kind != Kind::choice || seen[start] != Seen::no) continue;
    path.assign(1, {start, 0});
    seen[start] = Seen::open;
    while (!path.empty()) {
      auto& [id, at] = path.back();
      if (at == nodes_[id].children.size()) {
        for (const GrammarId child : nodes_[id].children) {
          depth[id] = std::max(depth[id], depth[child] + 1);
        }
        if (depth[id] > kMostChoices) return Fault::too_large;
        seen[id] = Seen::done;
        path.pop_back();
        continue;
      }
      const GrammarId child = nodes_[id].children[at++];
      if (nodes_[child].kind != Kind::choice || seen[child] == Seen::done) continue;
      if (seen[child] == Seen::open) return Fault::left_recursive;
      seen[child] = Seen::open;
      path.emplace_back(child, 0);
    }
  }
  return Fault::none;
}

std::uint64_t Grammar::memory_bytes() const {
  std::uint64_t bytes = sizeof(*this) + nodes_.capacity() * sizeof(GrammarNode);
  for (const GrammarNode& node : nodes_) {
    bytes += node.children.capacity() * sizeof(GrammarId);
    bytes += node.spellings.capacity() * sizeof(Symbols);
    for (const Symbols& each : node.spellings) bytes += each.capacity() * sizeof(Symbol);
  }
  return bytes;
}

}  // namespace sluice::text
