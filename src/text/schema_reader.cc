#include "text/schema_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "text/json_schema_fields.h"
#include "text/json_schema_keywords.h"
#include "text/json_schema_number.h"
#include "text/json_schema_place.h"

namespace sluice::text {
namespace {

using Kind = GrammarNode::Kind;

/// JSON's own name of a value's type.
std::string_view type_of(const Json& value) {
  for (const std::string_view type : {"null", "boolean", "string", "array", "object"}) {
    if (is_type(value, type)) return type;
  }
  return "number";
}

/// A value that is listed. As it is, if it is a string that is not written in JSON.
Symbols spelling_of(const Json& value, bool as_it_is) {
  if (as_it_is && value.is_string()) return symbols_of(value.get_ref<const std::string&>());
  return symbols_of(python_json(value, JsonForm::compact_sorted));
}

}  // namespace

SchemaReader::SchemaReader(Grammar& grammar, const Json& root, std::string where)
    : grammar_(grammar), root_(root), where_(std::move(where)), containers_(grammar) {}

Result<GrammarId> SchemaReader::read() {
  const GrammarId id = node_of(root_, Form::json, where_);
  SLUICE_TRY(finish());
  return id;
}

Result<std::vector<JsonMember>> SchemaReader::read_members(Tag tag) {
  constexpr std::array kOfObjects = {std::string_view("type"), std::string_view("properties"),
                                     std::string_view("required"),
                                     std::string_view("additionalProperties")};
  tag_ = std::move(tag);
  if (!root_.is_object()) return fail(ErrorKind::usage, "{}: must be an object", where_);
  SLUICE_TRY(only(root_, where_, kOfObjects));
  SLUICE_ASSIGN(const auto types, schema_types(root_, where_));
  if (!has(types, "object")) {
    return fail(ErrorKind::usage, "{}: must be \"object\"", place_in(where_, "type"));
  }
  if (root_.value("additionalProperties", Json(true)) != false) {
    return fail(ErrorKind::usage, "{}: must be false", place_in(where_, "additionalProperties"));
  }
  const GrammarId nothing = grammar_.choice({});
  SLUICE_ASSIGN(std::vector<JsonMember> members, members_of(root_, Form::tagged, where_, nothing));
  SLUICE_TRY(finish());
  return members;
}

GrammarId SchemaReader::node_of(const Json& schema, Form form, std::string path) {
  const auto known = nodes_.find({&schema, form});
  if (known != nodes_.end()) return known->second;
  const GrammarId id = grammar_.choice({});
  nodes_.emplace(std::pair(&schema, form), id);
  waiting_.push_back({&schema, form, std::move(path), id});
  return id;
}

tl::unexpected<Error> SchemaReader::too_large() const {
  return fail(ErrorKind::usage, "{}: is too large: more than {} parts", where_,
              Grammar::kMostNodes);
}

/// Reads all that node_of() has promised.
Status SchemaReader::finish() {
  while (!waiting_.empty()) {
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    SLUICE_ASSIGN(std::vector<GrammarId> children,
                  alternatives(*next.schema, next.form, next.path));
    grammar_.set_children(next.id, std::move(children));
    if (grammar_.size() > Grammar::kMostNodes) {
      return too_large();
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

Result<std::vector<GrammarId>> SchemaReader::alternatives(const Json& schema, Form form,
                                                          const std::string& path) {
  if (schema.is_boolean() && !schema.get<bool>()) return std::vector<GrammarId>{};
  static const Json kNothingAsked = Json::object();
  if (schema.is_boolean()) return of_types(kNothingAsked, form, path);
  if (!schema.is_object()) {
    return fail(ErrorKind::usage, "{}: must be an object or a boolean", path);
  }
  for (const std::string_view name : {"$ref", "anyOf", "allOf"}) {
    const auto found = schema.find(name);
    if (found == schema.end()) continue;
    SLUICE_TRY(only(schema, path, std::array{name}, name));
    return name == "$ref" ? reference(*found, form, place_in(path, name))
                          : subschemas(*found, form, place_in(path, name), name == "allOf");
  }
  for (const std::string_view name : {"enum", "const"}) {
    const auto found = schema.find(name);
    if (found == schema.end()) continue;
    SLUICE_TRY(only(schema, path, std::array{name, std::string_view("type")}, name));
    const bool list = name == "enum";
    if (list && !found->is_array()) {
      return fail(ErrorKind::usage, "{}: must be a list", place_in(path, name));
    }
    return spelled(schema, form, path, list ? *found : Json::array({*found}));
  }
  SLUICE_TRY(only(schema, path, kOfTypes));
  return of_types(schema, form, path);
}

Result<std::vector<GrammarId>> SchemaReader::reference(const Json& reference, Form form,
                                                       const std::string& path) {
  const std::string text = reference.is_string() ? reference.get<std::string>() : "";
  if (text == "#") return std::vector{node_of(root_, form, where_)};
  if (!text.starts_with("#/") || text.find('%') != std::string::npos) {
    return fail(ErrorKind::usage, "{}: must be a place in the same schema, like #/$defs/NAME",
                path);
  }
  SLUICE_ASSIGN(const Json* const schema, target(text, path));
  // Messages name it by its own place: by that of the reference they would grow with a chain.
  std::string place = text.substr(2);
  std::replace(place.begin(), place.end(), '/', '.');
  return std::vector{node_of(*schema, form, place_in(where_, place))};
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

Result<std::vector<GrammarId>> SchemaReader::subschemas(const Json& list, Form form,
                                                        const std::string& path, bool one) {
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
    nodes.push_back(node_of(list[i], form, place_in(path, fmt::format("[{}]", i))));
  }
  return nodes;
}

/// Values that are listed, as far as they have the right type.
Result<std::vector<GrammarId>> SchemaReader::spelled(const Json& schema, Form form,
                                                     const std::string& path, const Json& values) {
  SLUICE_ASSIGN(const auto wanted, schema_types(schema, path));
  std::map<std::string_view, GrammarNode> nodes;  // by type, if that is told; else under one name
  const bool tagged = form == Form::tagged;
  nodes.emplace("", GrammarNode{Kind::literal});
  for (const Json& value : values) {
    const bool fits = std::any_of(wanted.begin(), wanted.end(),
                                  [&](std::string_view type) { return is_type(value, type); });
    if (!fits) continue;
    GrammarNode& node =
        nodes.try_emplace(tagged ? type_of(value) : "", GrammarNode{Kind::literal}).first->second;
    node.spellings.push_back(spelling_of(value, tagged));
  }
  std::vector<GrammarId> ways;
  for (auto& [type, node] : nodes) {
    const GrammarId value = grammar_.add(std::move(node));
    ways.push_back(type.empty() ? value : tag_(type, value));
  }
  return ways;
}

Result<std::vector<GrammarId>> SchemaReader::of_types(const Json& schema, Form form,
                                                      const std::string& path) {
  SLUICE_ASSIGN(const auto wanted, schema_types(schema, path));
  std::vector<GrammarId> nodes;
  for (const std::string_view type : wanted) {
    if (type == "integer" && has(wanted, "number")) continue;  // is one
    SLUICE_ASSIGN(const GrammarId node, of_type(schema, form, path, type));
    nodes.push_back(form == Form::json ? node : tag_(type == "integer" ? "number" : type, node));
  }
  return nodes;
}

Result<GrammarId> SchemaReader::of_type(const Json& schema, Form form, const std::string& path,
                                        std::string_view type) {
  if (type == "null") return grammar_.literal("null");
  if (type == "boolean") {
    return grammar_.choice({grammar_.literal("true"), grammar_.literal("false")});
  }
  if (type == "array") return array(schema, path);
  if (type == "object") return object(schema, path);
  GrammarNode node;
  if (type == "string") {
    node.kind = form == Form::json ? Kind::string : Kind::text;
    SLUICE_ASSIGN(node.least, schema_count(schema, path, "minLength", 0));
    SLUICE_ASSIGN(node.most, schema_count(schema, path, "maxLength", GrammarNode::kNoLimit));
  } else {
    node.kind = Kind::number;
    SLUICE_ASSIGN(node.range, number_range(schema, path, type == "integer"));
  }
  return grammar_.add(std::move(node));
}

Result<GrammarId> SchemaReader::array(const Json& schema, const std::string& path) {
  const auto items = schema.find("items");
  const GrammarId item =
      items == schema.end() ? anything() : node_of(*items, Form::json, place_in(path, "items"));
  SLUICE_ASSIGN(const std::uint32_t least, schema_count(schema, path, "minItems", 0));
  SLUICE_ASSIGN(const std::uint32_t most,
                schema_count(schema, path, "maxItems", GrammarNode::kNoLimit));
  return containers_.array(item, least, most);
}

Result<GrammarId> SchemaReader::object(const Json& schema, const std::string& path) {
  const auto more = schema.find("additionalProperties");
  const GrammarId other = more == schema.end()
                              ? anything()
                              : node_of(*more, Form::json, place_in(path, "additionalProperties"));
  SLUICE_ASSIGN(const std::vector<JsonMember> members, members_of(schema, Form::json, path, other));
  const auto object = containers_.object(members, other);
  if (!object) return too_large();
  return *object;
}

Result<std::vector<JsonMember>> SchemaReader::members_of(const Json& schema, Form form,
                                                         const std::string& path, GrammarId other) {
  std::vector<JsonMember> members;
  if (const auto found = schema.find("properties"); found != schema.end()) {
    const std::string place = place_in(path, "properties");
    if (!found->is_object()) return fail(ErrorKind::usage, "{}: must be an object", place);
    for (const auto& [name, value] : found->items()) {
      members.push_back({name, node_of(value, form, place_in(place, name)), false});
    }
  }
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < members.size(); ++i) places.emplace(members[i].name, i);
  SLUICE_ASSIGN(const std::vector<std::string> required, schema_required(schema, path));
  for (const std::string& name : required) {
    const auto [place, is_new] = places.emplace(name, members.size());
    if (is_new) members.push_back({name, other, true});
    members[place->second].required = true;
  }
  return members;
}

}  // namespace sluice::text
