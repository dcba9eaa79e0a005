#include "text/json_containers.h"

#include <algorithm>
#include <utility>

#include "text/json.h"

namespace sluice::text {
namespace {

using Kind = GrammarNode::Kind;

constexpr std::uint32_t kMostIndent = 40;

}  // namespace

JsonContainers::JsonContainers(Grammar& grammar)
    : grammar_(grammar), space_(add_whitespace(grammar)), comma_(grammar.literal(",")) {}

GrammarId JsonContainers::array(GrammarId item, std::uint32_t least, std::uint32_t most) {
  GrammarNode list = {Kind::repeat};
  list.children = {item, grammar_.sequence({comma_, space_, item})};
  list.least = std::max(least, 1u);
  list.most = most;
  const GrammarId end = grammar_.sequence({space_, grammar_.literal("]")});
  std::vector<GrammarId> ways;
  if (least == 0) ways.push_back(end);
  if (most > 0) ways.push_back(grammar_.sequence({space_, grammar_.add(std::move(list)), end}));
  return nested("[", grammar_.choice(std::move(ways)));
}

// From the end: what may follow when all members before are done, first without a member before (so
// that no comma comes), then with one.
std::optional<GrammarId> JsonContainers::object(const std::vector<JsonMember>& members,
                                                GrammarId other) {
  const GrammarId end = grammar_.sequence({space_, grammar_.literal("}")});
  const GrammarId behind = grammar_.choice({});
  const GrammarId pair = other_pair(members, other, behind);
  grammar_.set_children(behind, {end, grammar_.sequence({comma_, space_, pair})});
  GrammarId empty = grammar_.choice({end, grammar_.sequence({space_, pair})});
  GrammarId filled = behind;
  for (std::size_t i = members.size(); i-- > 0;) {
    const JsonMember& member = members[i];
    const GrammarId name =
        grammar_.literal(python_json(member.name, JsonForm::compact_sorted) + ":");
    const GrammarId rest = grammar_.sequence({space_, name, space_, member.value, filled});
    const GrammarId with_comma = grammar_.sequence({comma_, rest});
    empty = member.required ? rest : grammar_.choice({rest, empty});
    filled = member.required ? with_comma : grammar_.choice({with_comma, filled});
    if (grammar_.size() > Grammar::kMostNodes) return std::nullopt;
  }
  return nested("{", empty);
}

/// A member that is not declared, and what is behind it.
GrammarId JsonContainers::other_pair(const std::vector<JsonMember>& members, GrammarId value,
                                     GrammarId behind) {
  GrammarNode name = {Kind::string};
  for (const JsonMember& member : members) name.spellings.push_back(symbols_of(member.name));
  return grammar_.sequence(
      {grammar_.add(std::move(name)), grammar_.literal(":"), space_, value, behind});
}

GrammarId JsonContainers::nested(std::string_view bracket, GrammarId rest) {
  GrammarNode node = {Kind::sequence, {grammar_.literal(bracket), rest}};
  node.nests = true;
  return grammar_.add(std::move(node));
}

GrammarId add_whitespace(Grammar& grammar) {
  GrammarNode node = {Kind::whitespace};
  node.most = kMostIndent;
  return grammar.add(std::move(node));
}

}  // namespace sluice::text
