#include "text/grammar.h"

#include <algorithm>
#include <utility>

namespace sluice::text {

Symbols symbols_of(std::string_view bytes) {
  Symbols symbols;
  symbols.reserve(bytes.size());
  for (const char byte : bytes) symbols.push_back(static_cast<unsigned char>(byte));
  return symbols;
}

GrammarId Grammar::add(GrammarNode node) {
  std::sort(node.spellings.begin(), node.spellings.end());
  const auto twice = std::unique(node.spellings.begin(), node.spellings.end());
  node.spellings.erase(twice, node.spellings.end());
  // Not twice as many each time: what is never used counts for the room of all grammars.
  if (nodes_.size() == nodes_.capacity()) nodes_.reserve(nodes_.size() + nodes_.size() / 8 + 8);
  nodes_.push_back(std::move(node));
  return static_cast<GrammarId>(nodes_.size() - 1);
}

GrammarId Grammar::literal(std::string_view bytes) { return literal(symbols_of(bytes)); }

GrammarId Grammar::literal(Symbols symbols) {
  GrammarNode node = {GrammarNode::Kind::literal};
  node.spellings.push_back(std::move(symbols));
  return add(std::move(node));
}

GrammarId Grammar::sequence(std::vector<GrammarId> children) {
  return add({GrammarNode::Kind::sequence, std::move(children)});
}

GrammarId Grammar::choice(std::vector<GrammarId> children) {
  return add({GrammarNode::Kind::choice, std::move(children)});
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
