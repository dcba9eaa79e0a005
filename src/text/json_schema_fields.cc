#include "text/json_schema_fields.h"

#include <algorithm>

#include "text/json_schema_keywords.h"
#include "text/json_schema_place.h"

namespace sluice::text {

Result<std::vector<std::string_view>> schema_types(const Json& schema, const std::string& path) {
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

Result<std::uint32_t> schema_count(const Json& schema, const std::string& path,
                                   std::string_view name, std::uint32_t otherwise) {
  const auto found = schema.find(name);
  if (found == schema.end()) return otherwise;
  constexpr std::uint32_t kMost = 1'000'000;
  if (!found->is_number_integer() || *found < 0 || *found > kMost) {
    return fail(ErrorKind::usage, "{}: must be a whole number from 0 to {}", place_in(path, name),
                kMost);
  }
  return found->get<std::uint32_t>();
}

Result<std::vector<std::string>> schema_required(const Json& schema, const std::string& path) {
  const auto found = schema.find("required");
  std::vector<std::string> names;
  if (found == schema.end()) return names;
  const auto is_text = [](const Json& name) { return name.is_string(); };
  if (!found->is_array() || !std::all_of(found->begin(), found->end(), is_text)) {
    return fail(ErrorKind::usage, "{}: must be a list of names", place_in(path, "required"));
  }
  for (const Json& name : *found) names.push_back(name.get<std::string>());
  return names;
}

}  // namespace sluice::text
