#include "text/json_schema.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "text/json_schema_keywords.h"
#include "text/json_schema_number.h"

namespace sluice::text {
namespace {

using Kind = GrammarNode::Kind;

constexpr std::uint32_t kMostIndent = 40;

/// Schemas are read one after another, not within each other: each first is a choice of nothing,
/// which is filled in when its turn comes. So they may refer to each other as they like.
class SchemaReader {
 public:
  SchemaReader(Grammar& grammar, const Json& root, std::string where)
      : grammar_(grammar), root_(root), where_(std::move(where)) {
    space_ = add_whitespace(grammar);
    comma_ = grammar.literal(",");
  }

  Result<GrammarId> read() {
    const GrammarId id = node_of(root_, where_);
    while (!waiting_.empty()) {
      const Waiting next = std::move(waiting_.front());
      waiting_.pop_front();
      SLUICE_ASSIGN(std::vector<GrammarId> children, alternatives(*next.schema, next.path));
      grammar_.set_children(next.id, std::move(children));
      if (grammar_.size() > Grammar::kMostNodes) {
        return fail(ErrorKind::usage, "{}: is too large", where_);
      }
    }
    return id;
  }

 private:
  struct Waiting {
    const Json* schema;
    std::string path;
    GrammarId id;
  };
  struct Member {
    std::string name;
    GrammarId value;
    bool required;
  };

  GrammarId node_of(const Json& schema, std::string path) {
    const auto known = nodes_.find(&schema);
    if (known != nodes_.end()) return known->second;
    const GrammarId id = grammar_.choice({});
    nodes_.emplace(&schema, id);
    waiting_.push_back({&schema, std::move(path), id});
    return id;
  }
  GrammarId anything() { return node_of(anything_, where_); }

  static std::string inside(const std::string& path, std::string_view name) {
    return fmt::format("{}.{}", path, name.substr(0, 80));
  }

  /// Refuses every keyword but annotations and `known`.
  template <class List>
  Status only(const Json& schema, const std::string& path, const List& known,
              std::string_view beside = {}) const {
    for (const auto& [name, value] : schema.items()) {
      if (has(kAnnotations, name) || has(known, name)) continue;
      if (&schema == &root_ && (name == "$schema" || name == "$id")) continue;
      return fail(ErrorKind::usage, "{}: is not supported{}{}", inside(path, name),
                  beside.empty() ? "" : " beside ", beside);
    }
    return {};
  }

  Result<std::vector<GrammarId>> alternatives(const Json& schema, const std::string& path) {
    if (schema.is_boolean() && !schema.get<bool>()) return std::vector<GrammarId>{};
    static const Json kNothingAsked = Json::object();
    if (schema.is_boolean()) return of_types(kNothingAsked, path);
    if (!schema.is_object()) {
      return fail(ErrorKind::usage, "{}: must be an object or a boolean", path);
    }
    for (const std::string_view name : {"$ref", "anyOf", "allOf"}) {
      const auto found = schema.find(name);
      if (found == schema.end()) continue;
      SLUICE_TRY(only(schema, path, std::array{name}, name));
      return name == "$ref" ? reference(*found, inside(path, name))
                            : subschemas(*found, inside(path, name), name == "allOf");
    }
    for (const std::string_view name : {"enum", "const"}) {
      const auto found = schema.find(name);
      if (found == schema.end()) continue;
      SLUICE_TRY(only(schema, path, std::array{name, std::string_view("type")}, name));
      const bool list = name == "enum";
      if (list && !found->is_array()) {
        return fail(ErrorKind::usage, "{}: must be a list", inside(path, name));
      }
      return spelled(schema, path, list ? *found : Json::array({*found}));
    }
    SLUICE_TRY(only(schema, path, kOfTypes));
    return of_types(schema, path);
  }

  Result<std::vector<GrammarId>> reference(const Json& reference, const std::string& path) {
    const std::string text = reference.is_string() ? reference.get<std::string>() : "";
    if (text == "#") return std::vector{node_of(root_, where_)};
    if (!text.starts_with("#/") || text.find('%') != std::string::npos) {
      return fail(ErrorKind::usage, "{}: must be a place in the same schema, like #/$defs/NAME",
                  path);
    }
    Json::json_pointer pointer;
    try {
      pointer = Json::json_pointer(text.substr(1));
      if (root_.contains(pointer)) return std::vector{node_of(root_.at(pointer), path)};
    } catch (const Json::exception&) {
      return fail(ErrorKind::usage, "{}: is not a JSON pointer", path);
    }
    return fail(ErrorKind::usage, "{}: there is nothing at {}", path, text.substr(0, 80));
  }

  Result<std::vector<GrammarId>> subschemas(const Json& list, const std::string& path, bool one) {
    if (!list.is_array() || list.empty()) {
      return fail(ErrorKind::usage, "{}: must be a list of schemas", path);
    }
    if (one && list.size() > 1) {
      return fail(ErrorKind::usage, "{}: is not supported with more than one schema", path);
    }
    std::vector<GrammarId> nodes;
    for (std::size_t i = 0; i < list.size(); ++i) {
      nodes.push_back(node_of(list[i], fmt::format("{}[{}]", path, i)));
    }
    return nodes;
  }

  /// The types that `schema` allows; all if it names none.
  Result<std::vector<std::string_view>> types(const Json& schema, const std::string& path) const {
    const auto found = schema.find("type");
    std::vector<std::string_view> types;
    if (found == schema.end()) return std::vector<std::string_view>(kTypes.begin(), kTypes.end());
    const auto add = [&](const Json& name) {
      if (!name.is_string() || !has(kTypes, name.get_ref<const std::string&>())) return false;
      types.push_back(name.get_ref<const std::string&>());
      return true;
    };
    const bool good = found->is_array()
                          ? !found->empty() && std::all_of(found->begin(), found->end(), add)
                          : add(*found);
    if (!good) {
      return fail(ErrorKind::usage, "{}: must be one or more of {}", inside(path, "type"),
                  fmt::join(kTypes, ", "));
    }
    return types;
  }

  /// Values that are listed, as far as they have the right type.
  Result<std::vector<GrammarId>> spelled(const Json& schema, const std::string& path,
                                         const Json& values) {
    SLUICE_ASSIGN(const auto wanted, types(schema, path));
    GrammarNode node = {Kind::literal};
    for (const Json& value : values) {
      const bool fits = std::any_of(wanted.begin(), wanted.end(),
                                    [&](std::string_view type) { return is_type(value, type); });
      if (fits) {
        node.spellings.push_back(symbols_of(python_json(value, JsonForm::compact_sorted)));
      }
    }
    return std::vector{grammar_.add(std::move(node))};
  }

  Result<std::vector<GrammarId>> of_types(const Json& schema, const std::string& path) {
    SLUICE_ASSIGN(const auto wanted, types(schema, path));
    std::vector<GrammarId> nodes;
    for (const std::string_view type : wanted) {
      if (type == "integer" && has(wanted, "number")) continue;  // is one
      SLUICE_ASSIGN(const GrammarId node, of_type(schema, path, type));
      nodes.push_back(node);
    }
    return nodes;
  }

  Result<GrammarId> of_type(const Json& schema, const std::string& path, std::string_view type) {
    if (type == "null") return grammar_.literal("null");
    if (type == "boolean") {
      return grammar_.choice({grammar_.literal("true"), grammar_.literal("false")});
    }
    if (type == "array") return array(schema, path);
    if (type == "object") return object(schema, path);
    GrammarNode node;
    if (type == "string") {
      node.kind = Kind::string;
      SLUICE_ASSIGN(node.least, count(schema, path, "minLength", 0));
      SLUICE_ASSIGN(node.most, count(schema, path, "maxLength", GrammarNode::kNoLimit));
    } else {
      node.kind = Kind::number;
      SLUICE_ASSIGN(node.range, number_range(schema, path, type == "integer"));
    }
    return grammar_.add(std::move(node));
  }

  static Result<std::uint32_t> count(const Json& schema, const std::string& path,
                                     std::string_view name, std::uint32_t otherwise) {
    const auto found = schema.find(name);
    if (found == schema.end()) return otherwise;
    constexpr std::uint32_t kMost = 1'000'000;
    if (!found->is_number_integer() || *found < 0 || *found > kMost) {
      return fail(ErrorKind::usage, "{}: must be a whole number from 0 to {}", inside(path, name),
                  kMost);
    }
    return found->get<std::uint32_t>();
  }

  Result<GrammarId> array(const Json& schema, const std::string& path) {
    const auto items = schema.find("items");
    const GrammarId item =
        items == schema.end() ? anything() : node_of(*items, inside(path, "items"));
    GrammarNode list = {Kind::repeat};
    list.children = {item, grammar_.sequence({comma_, space_, item})};
    SLUICE_ASSIGN(list.least, count(schema, path, "minItems", 0));
    SLUICE_ASSIGN(list.most, count(schema, path, "maxItems", GrammarNode::kNoLimit));
    const bool may_be_empty = list.least == 0;
    const bool may_be_full = list.most > 0;
    list.least = std::max(list.least, 1u);
    const GrammarId end = grammar_.sequence({space_, grammar_.literal("]")});
    std::vector<GrammarId> ways;
    if (may_be_empty) ways.push_back(end);
    if (may_be_full) ways.push_back(grammar_.sequence({space_, grammar_.add(list), end}));
    return nested("[", grammar_.choice(std::move(ways)));
  }

  GrammarId nested(std::string_view bracket, GrammarId rest) {
    GrammarNode node = {Kind::sequence, {grammar_.literal(bracket), rest}};
    node.nests = true;
    return grammar_.add(std::move(node));
  }

  Result<GrammarId> object(const Json& schema, const std::string& path) {
    const auto more = schema.find("additionalProperties");
    const GrammarId other =
        more == schema.end() ? anything() : node_of(*more, inside(path, "additionalProperties"));
    SLUICE_ASSIGN(const std::vector<Member> members, members_of(schema, path, other));
    // From the end: what may follow when all members before are done, first without a member before
    // (so that no comma comes), then with one.
    const GrammarId end = grammar_.sequence({space_, grammar_.literal("}")});
    const GrammarId behind = grammar_.choice({});
    const GrammarId pair = other_pair(members, other, behind);
    grammar_.set_children(behind, {end, grammar_.sequence({comma_, space_, pair})});
    GrammarId empty = grammar_.choice({end, grammar_.sequence({space_, pair})});
    GrammarId filled = behind;
    for (std::size_t i = members.size(); i-- > 0;) {
      const Member& member = members[i];
      const GrammarId name =
          grammar_.literal(python_json(member.name, JsonForm::compact_sorted) + ":");
      const GrammarId rest = grammar_.sequence({space_, name, space_, member.value, filled});
      const GrammarId with_comma = grammar_.sequence({comma_, rest});
      empty = member.required ? rest : grammar_.choice({rest, empty});
      filled = member.required ? with_comma : grammar_.choice({with_comma, filled});
      if (grammar_.size() > Grammar::kMostNodes) {
        return fail(ErrorKind::usage, "{}: is too large", where_);
      }
    }
    return nested("{", empty);
  }

  /// A member that is not declared, and what is behind it.
  GrammarId other_pair(const std::vector<Member>& members, GrammarId value, GrammarId behind) {
    GrammarNode name = {Kind::string};
    for (const Member& member : members) name.spellings.push_back(symbols_of(member.name));
    return grammar_.sequence(
        {grammar_.add(std::move(name)), grammar_.literal(":"), space_, value, behind});
  }

  Result<std::vector<Member>> members_of(const Json& schema, const std::string& path,
                                         GrammarId other) {
    std::vector<Member> members;
    if (const auto found = schema.find("properties"); found != schema.end()) {
      const std::string place = inside(path, "properties");
      if (!found->is_object()) return fail(ErrorKind::usage, "{}: must be an object", place);
      for (const auto& [name, value] : found->items()) {
        members.push_back({name, node_of(value, inside(place, name)), false});
      }
    }
    const auto found = schema.find("required");
    if (found == schema.end()) return members;
    std::map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < members.size(); ++i) places.emplace(members[i].name, i);
    if (!found->is_array()) {
      return fail(ErrorKind::usage, "{}: must be a list of names", inside(path, "required"));
    }
    for (const Json& name : *found) {
      if (!name.is_string()) {
        return fail(ErrorKind::usage, "{}: must be a list of names", inside(path, "required"));
      }
      const auto [place, is_new] = places.emplace(name.get<std::string>(), members.size());
      if (is_new) members.push_back({place->first, other, true});
      members[place->second].required = true;
    }
    return members;
  }

  Grammar& grammar_;
  const Json& root_;
  const std::string where_;
  const Json anything_ = true;
  GrammarId space_ = 0;
  GrammarId comma_ = 0;
  std::map<const Json*, GrammarId> nodes_;
  std::deque<Waiting> waiting_;
};

}  // namespace

GrammarId add_whitespace(Grammar& grammar) {
  GrammarNode node = {Kind::whitespace};
  node.most = kMostIndent;
  return grammar.add(std::move(node));
}

Result<GrammarId> add_schema(Grammar& grammar, const Json& schema, const std::string& where) {
  return SchemaReader(grammar, schema, where).read();
}

Status close_grammar(Grammar& grammar, GrammarId root, const std::string& where) {
  switch (grammar.close(root)) {
    case Grammar::Fault::none:
      return {};
    case Grammar::Fault::nothing_fits:
      return fail(ErrorKind::usage, "{}: no JSON text fits it, or none with {} levels at most",
                  where, kGrammarDepth);
    case Grammar::Fault::left_recursive:
      return fail(ErrorKind::usage, "{}: a $ref leads to itself with nothing in between", where);
    case Grammar::Fault::too_large:
      return fail(ErrorKind::usage, "{}: is too large", where);
  }
  return {};
}

}  // namespace sluice::text
