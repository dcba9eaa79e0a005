// What is found out about a whole grammar before it is followed: that some text is in it, that no
// step of following it can go on for ever, or multiply.
#include <algorithm>
#include <deque>
#include <utility>

#include "text/grammar.h"

namespace sluice::text {
namespace {

using Kind = GrammarNode::Kind;

constexpr std::uint32_t kNever = UINT32_MAX;  // the height of what no text is
// Ways that merge_choice() may write down in all; 320 KB.
constexpr std::size_t kMostListed = 4 * Grammar::kMostNodes;

/// By node, those that have it as a child.
std::vector<std::vector<GrammarId>> parents_of(const std::vector<GrammarNode>& nodes) {
  std::vector<std::vector<GrammarId>> parents(nodes.size());
  for (GrammarId id = 0; id < nodes.size(); ++id) {
    for (const GrammarId child : nodes[id].children) {
      std::vector<GrammarId>& known = parents[child];
      if (known.empty() || known.back() != id) known.push_back(id);
    }
  }
  return parents;
}

}  // namespace

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
    case Kind::text:
      if (node.least > node.most) height = kNever;
      break;
    case Kind::number:
      if (node.range.lowest > node.range.highest) height = kNever;
      break;
    case Kind::whitespace:
      break;
  }
  if (node.nests && height != kNever) ++height;
  return height > kGrammarDepth ? kNever : height;
}

// The least solution: heights only fall, from "never", and whatever has a node in it that fell is
// looked at again. Since what needs more levels than there may be counts as never, a node falls a
// bounded number of times, however long the way from a reference to what it leads to.
void Grammar::find_heights() {
  const auto parents = parents_of(nodes_);
  std::deque<GrammarId> waiting;
  std::vector<bool> waits(nodes_.size(), true);
  for (GrammarId id = 0; id < nodes_.size(); ++id) {
    nodes_[id].height = kNever;
    waiting.push_back(id);
  }
  while (!waiting.empty()) {
    const GrammarId id = waiting.front();
    waiting.pop_front();
    waits[id] = false;
    const std::uint32_t height = height_of(nodes_[id]);
    if (height == nodes_[id].height) continue;
    nodes_[id].height = height;
    for (const GrammarId parent : parents[id]) {
      if (!waits[parent]) waiting.push_back(parent);
      waits[parent] = true;
    }
  }
}

// Choices within choices are entered recursively, without a symbol in between, so there must be an
// end to them, and a near one. Everything else that recursion can go through begins with a symbol:
// the bracket of an array or object.
Grammar::Fault Grammar::check_choices() {
  enum class Seen : std::uint8_t { no, open, done };
  std::vector<Seen> seen(nodes_.size(), Seen::no);
  std::vector<std::size_t> depth(nodes_.size(), 0);  // of choices from here on, once done
  std::vector<std::size_t> ways(nodes_.size(), 1);   // of choices, once done
  std::size_t listed = 0;
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
        if (const Fault fault = merge_choice(id, ways, listed); fault != Fault::none) return fault;
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

// Choices that share what they lead to multiply: thirty of them, each of two times the next, are a
// thousand million ways, all to the same place. Where there are many ways, the choice gets a list
// of the different ones instead. `ways` of the choices within it must be known, and is set for it.
Grammar::Fault Grammar::merge_choice(GrammarId id, std::vector<std::size_t>& ways,
                                     std::size_t& listed) {
  const auto leads_nowhere = [&](GrammarId child) { return nodes_[child].height == kNever; };
  ways[id] = 0;
  for (const GrammarId child : nodes_[id].children) {
    if (!leads_nowhere(child)) ways[id] += ways[child];
  }
  if (ways[id] <= kMostWays) return Fault::none;
  std::vector<GrammarId> different;
  std::vector<GrammarId> waiting = nodes_[id].children;
  std::vector<bool> seen(nodes_.size(), false);
  while (!waiting.empty()) {
    const GrammarId next = waiting.back();
    waiting.pop_back();
    if (seen[next] || leads_nowhere(next)) continue;
    seen[next] = true;
    const GrammarNode& node = nodes_[next];
    if (node.kind == Kind::choice) {
      waiting.insert(waiting.end(), node.children.begin(), node.children.end());
    } else {
      different.push_back(next);
    }
  }
  listed += different.size();
  if (different.size() > kMostWays || listed > kMostListed) return Fault::too_many_ways;
  ways[id] = different.size();
  nodes_[id].children = std::move(different);
  return Fault::none;
}

}  // namespace sluice::text
