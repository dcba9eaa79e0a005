// The words of JSON Schema that are understood.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "text/json.h"

namespace sluice::text {

/// Say nothing about what fits; definitions are read where they are used.
inline constexpr std::array kAnnotations = {
    std::string_view("title"),      std::string_view("description"), std::string_view("default"),
    std::string_view("examples"),   std::string_view("$comment"),    std::string_view("deprecated"),
    std::string_view("readOnly"),   std::string_view("writeOnly"),   std::string_view("$defs"),
    std::string_view("definitions")};
/// Each is for one type, and says nothing about the others.
inline constexpr std::array kOfTypes = {std::string_view("type"),
                                        std::string_view("properties"),
                                        std::string_view("required"),
                                        std::string_view("additionalProperties"),
                                        std::string_view("items"),
                                        std::string_view("minItems"),
                                        std::string_view("maxItems"),
                                        std::string_view("minLength"),
                                        std::string_view("maxLength"),
                                        std::string_view("minimum"),
                                        std::string_view("maximum"),
                                        std::string_view("exclusiveMinimum"),
                                        std::string_view("exclusiveMaximum")};
inline constexpr std::array kTypes = {std::string_view("null"),   std::string_view("boolean"),
                                      std::string_view("string"), std::string_view("integer"),
                                      std::string_view("number"), std::string_view("array"),
                                      std::string_view("object")};

template <class List>
bool has(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

/// Whether a value is of a type of JSON Schema.
inline bool is_type(const Json& value, std::string_view type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "number") return is_json_number(value);
  return value.is_number_integer() || value.is_binary() ||
         (value.is_number_float() &&
          value.get<double>() == static_cast<double>(static_cast<std::int64_t>(
                                     std::clamp(value.get<double>(), -9e18, 9e18))));
}

}  // namespace sluice::text
