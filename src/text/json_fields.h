// Members of a JSON object that may be missing or of another kind.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::text {

/// null if it is missing.
inline const nlohmann::json& member(const nlohmann::json& object, const char* name) {
  static const nlohmann::json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}
/// `absent` if it is no string.
inline std::string text_of(const nlohmann::json& object, const char* name,
                           const std::string& absent = {}) {
  const nlohmann::json& value = member(object, name);
  return value.is_string() ? value.get<std::string>() : absent;
}
/// `absent` if it is no boolean.
inline bool flag_of(const nlohmann::json& object, const char* name, bool absent = false) {
  const nlohmann::json& value = member(object, name);
  return value.is_boolean() ? value.get<bool>() : absent;
}

}  // namespace sluice::text
