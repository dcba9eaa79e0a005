// Whether a JSON value fits a schema: a second reading of the keywords, to test the first.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "text/json.h"
#include "text/utf8.h"

namespace sluice::text {

inline std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

inline bool has_type(const Json& value, const std::string& type) {
  if (type == "integer") {
    return value.is_number() && value.get<double>() == std::floor(value.get<double>());
  }
  if (type == "number") return value.is_number();
  return value.type_name() == type;
}

inline bool fits(const Json& value, const Json& schema, const Json& root);

inline bool fits_object(const Json& value, const Json& schema, const Json& root) {
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>())) return false;
  }
  const Json properties = schema.value("properties", Json::object());
  const Json others = schema.value("additionalProperties", Json(true));
  for (const auto& [name, each] : value.items()) {
    if (!fits(each, properties.contains(name) ? properties[name] : others, root)) return false;
  }
  return true;
}

inline bool fits_number(double value, const Json& schema) {
  return value >= schema.value("minimum", -HUGE_VAL) &&
         value <= schema.value("maximum", HUGE_VAL) &&
         value > schema.value("exclusiveMinimum", -HUGE_VAL) &&
         value < schema.value("exclusiveMaximum", HUGE_VAL);
}

inline bool fits_array(const Json& value, const Json& schema, const Json& root) {
  if (value.size() < schema.value("minItems", 0u)) return false;
  if (value.size() > schema.value("maxItems", ~0u)) return false;
  return std::all_of(value.begin(), value.end(), [&](const Json& each) {
    return !schema.contains("items") || fits(each, schema["items"], root);
  });
}

inline bool fits(const Json& value, const Json& schema, const Json& root) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref")) {
    const std::string place = schema["$ref"].get<std::string>().substr(1);
    return fits(value, root.at(Json::json_pointer(place)), root);
  }
  if (schema.contains("type")) {
    const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
    if (std::none_of(types.begin(), types.end(),
                     [&](const Json& type) { return has_type(value, type.get<std::string>()); })) {
      return false;
    }
  }
  if (schema.contains("const") && value != schema["const"]) return false;
  if (schema.contains("enum")) {
    const Json& list = schema["enum"];
    if (std::find(list.begin(), list.end(), value) == list.end()) return false;
  }
  if (schema.contains("anyOf")) {
    const Json& list = schema["anyOf"];
    if (std::none_of(list.begin(), list.end(),
                     [&](const Json& each) { return fits(value, each, root); })) {
      return false;
    }
  }
  if (value.is_string()) {
    const std::size_t size = characters(value.get<std::string>());
    return size >= schema.value("minLength", 0u) && size <= schema.value("maxLength", ~0u);
  }
  if (value.is_number()) return fits_number(value.get<double>(), schema);
  if (value.is_array()) return fits_array(value, schema, root);
  return !value.is_object() || fits_object(value, schema, root);
}

}  // namespace sluice::text
