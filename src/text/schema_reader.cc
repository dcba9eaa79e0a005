#include "text/schema_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "text/json_schema_keywords.h"
#include "text/json_schema_number.h"
#include "text/json_schema_place.h"

namespace sluice::text {
namespace {

using Kind = GrammarNode::Kind;

/// The types that `schema` allows; all if it names none.
Result<std::vector<std::string_view>> types(const Json& schema, const std::string& path) {
  const auto found = schema.find("type");
  std::vector<std::string_view> types;
  if (found == schema.end()) return std::vector<std::string_view>(kTypes.begin(), kTypes.end());
  const auto add = [&](const Json& name) {
    if (!name.is_string() || !has(kTypes, name.get_ref<const std::string&>())) return false;
    const std::string_view type = name.get_ref<const std::string&>();
    if (!has(types, type)) types.push_back(type);
    return true;
  };
  const bool good = found->is_array()
                        ? !found->empty() && std::all_of(found->begin(), found->end(), add)
                        : add(*found);
  if (!good) {
    return fail(ErrorKind::usage, "{}: must be one or more of {}", place_in(path, "type"),
                fmt::join(kTypes, ", "));
  }
  return types;
}

Result<std::uint32_t> count(const Json& schema, const std::string& path, std::string_view name,
                            std::uint32_t otherwise) {
  const auto found = schema.find(name);
  if (found == schema.end()) return otherwise;
  constexpr std::uint32_t kMost = 1'000'000;
  if (!found->is_number_integer() || *found < 0 || *found > kMost) {
    return fail(ErrorKind::usage, "{}: must be a whole number from 0 to {}", place_in(path, name),
                kMost);
  }
  return found->get<std::uint32_t>();
}

}  // namespace

SchemaReader::SchemaReader(Grammar& grammar, const Json& root, std::string where)
    : grammar_(grammar), root_(root), where_(std::move(where)), containers_(grammar) {}

Result<GrammarId> SchemaReader::read() {
  const GrammarId id = node_of(root_, where_);
  SLUICE_TRY(finish());
  return id;
}

GrammarId SchemaReader::node_of(const Json& schema, std::string path) {
  const auto known = nodes_.find(&schema);
  if (known != nodes_.end()) return known->second;
  const GrammarId id = grammar_.choice({});
  nodes_.emplace(&schema, id);
  waiting_.push_back({&schema, std::move(path), id});
  return id;
}

/// Reads all that node_of() has promised.
Status SchemaReader::finish() {
  while (!waiting_.empty()) {
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    SLUICE_ASSIGN(std::vector<GrammarId> children, alternatives(*next.schema, next.path));
    grammar_.set_children(next.id, std::move(children));
    if (grammar_.size() > Grammar::kMostNodes) {
      return fail(ErrorKind::usage, "{}: is too large", where_);
    }
  }
  return {};
}

/// Refuses every keyword but annotations and `known`.
template <class List>
Status SchemaReader::only(const Json& schema, const std::string& path, const List& known,
                          std::string_view beside) const {
  for (const auto& [name, value] : schema.items()) {
    if (has(kAnnotations, name) || has(known, name)) continue;
    if (&schema == &root_ && (name == "$schema" || name == "$id")) continue;
    return fail(ErrorKind::usage, "{}: is not supported{}{}", place_in(path, name),
                beside.empty() ? "" : " beside ", beside);
  }
  return {};
}

Result<std::vector<GrammarId>> SchemaReader::alternatives(const Json& schema,
                                                          const std::string& path) {
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
    return name == "$ref" ? reference(*found, place_in(path, name))
                          : subschemas(*found, place_in(path, name), name == "allOf");
  }
  for (const std::string_view name : {"enum", "const"}) {
    const auto found = schema.find(name);
    if (found == schema.end()) continue;
    SLUICE_TRY(only(schema, path, std::array{name, std::string_view("type")}, name));
    const bool list = name == "enum";
    if (list && !found->is_array()) {
      return fail(ErrorKind::usage, "{}: must be a list", place_in(path, name));
    }
    return spelled(schema, path, list ? *found : Json::array({*found}));
  }
  SLUICE_TRY(only(schema, path, kOfTypes));
  return of_types(schema, path);
}

Result<std::vector<GrammarId>> SchemaReader::reference(const Json& reference,
                                                       const std::string& path) {
  const std::string text = reference.is_string() ? reference.get<std::string>() : "";
  if (text == "#") return std::vector{node_of(root_, where_)};
  if (!text.starts_with("#/") || text.find('%') != std::string::npos) {
    return fail(ErrorKind::usage, "{}: must be a place in the same schema, like #/$defs/NAME",
                path);
  }
  SLUICE_ASSIGN(const Json* const schema, target(text, path));
  // Messages name it by its own place: by that of the reference they would grow with a chain.
  std::string place = text.substr(2);
  std::replace(place.begin(), place.end(), '/', '.');
  return std::vector{node_of(*schema, place_in(where_, place))};
}

/// What is at a JSON pointer behind a #. Objects are searched from their beginning, so each pointer
/// is followed once.
Result<const Json*> SchemaReader::target(const std::string& reference, const std::string& path) {
  const auto [known, is_new] = targets_.emplace(reference, nullptr);
  if (!is_new) return known->second;
  try {
    const Json::json_pointer pointer(reference.substr(1));
    if (root_.contains(pointer)) return known->second = &root_.at(pointer);
  } catch (const Json::exception&) {
    return fail(ErrorKind::usage, "{}: is not a JSON pointer", path);
  }
  return fail(ErrorKind::usage, "{}: there is nothing at {}", path, reference.substr(0, 80));
}

Result<std::vector<GrammarId>> SchemaReader::subschemas(const Json& list, const std::string& path,
                                                        bool one) {
  if (!list.is_array() || list.empty()) {
    return fail(ErrorKind::usage, "{}: must be a list of schemas", path);
  }
  if (one && list.size() > 1) {
    return fail(ErrorKind::usage, "{}: is not supported with more than one schema", path);
  }
  std::vector<GrammarId> nodes;
  std::set<std::string> seen;  // the same twice would only be two ways to read the same text
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!seen.insert(python_json(list[i], JsonForm::spaced)).second) continue;
    nodes.push_back(node_of(list[i], place_in(path, fmt::format("[{}]", i))));
  }
  return nodes;
}

/// Values that are listed, as far as they have the right type.
Result<std::vector<GrammarId>> SchemaReader::spelled(const Json& schema, const std::string& path,
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

Result<std::vector<GrammarId>> SchemaReader::of_types(const Json& schema, const std::string& path) {
  SLUICE_ASSIGN(const auto wanted, types(schema, path));
  std::vector<GrammarId> nodes;
  for (const std::string_view type : wanted) {
    if (type == "integer" && has(wanted, "number")) continue;  // is one
    SLUICE_ASSIGN(const GrammarId node, of_type(schema, path, type));
    nodes.push_back(node);
  }
  return nodes;
}

Result<GrammarId> SchemaReader::of_type(const Json& schema, const std::string& path,
                                        std::string_view type) {
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

Result<GrammarId> SchemaReader::array(const Json& schema, const std::string& path) {
  const auto items = schema.find("items");
  const GrammarId item =
      items == schema.end() ? anything() : node_of(*items, place_in(path, "items"));
  SLUICE_ASSIGN(const std::uint32_t least, count(schema, path, "minItems", 0));
  SLUICE_ASSIGN(const std::uint32_t most, count(schema, path, "maxItems", GrammarNode::kNoLimit));
  return containers_.array(item, least, most);
}

Result<GrammarId> SchemaReader::object(const Json& schema, const std::string& path) {
  const auto more = schema.find("additionalProperties");
  const GrammarId other =
      more == schema.end() ? anything() : node_of(*more, place_in(path, "additionalProperties"));
  SLUICE_ASSIGN(const std::vector<JsonMember> members, members_of(schema, path, other));
  const auto object = containers_.object(members, other);
  if (!object) return fail(ErrorKind::usage, "{}: is too large", where_);
  return *object;
}

Result<std::vector<JsonMember>> SchemaReader::members_of(const Json& schema,
                                                         const std::string& path, GrammarId other) {
  std::vector<JsonMember> members;
  if (const auto found = schema.find("properties"); found != schema.end()) {
    const std::string place = place_in(path, "properties");
    if (!found->is_object()) return fail(ErrorKind::usage, "{}: must be an object", place);
    for (const auto& [name, value] : found->items()) {
      members.push_back({name, node_of(value, place_in(place, name)), false});
    }
  }
  const auto found = schema.find("required");
  if (found == schema.end()) return members;
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < members.size(); ++i) places.emplace(members[i].name, i);
  if (!found->is_array()) {
    return fail(ErrorKind::usage, "{}: must be a list of names", place_in(path, "required"));
  }
  for (const Json& name : *found) {
    if (!name.is_string()) {
      return fail(ErrorKind::usage, "{}: must be a list of names", place_in(path, "required"));
    }
    const auto [place, is_new] = places.emplace(name.get<std::string>(), members.size());
    if (is_new) members.push_back({place->first, other, true});
    members[place->second].required = true;
  }
  return members;
}

}  // namespace sluice::text
