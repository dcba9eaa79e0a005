// The values of a schema's keywords, checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/json.h"

namespace sluice::text {

/// The types that `schema` allows, each once; all if it names none. ErrorKind::usage.
Result<std::vector<std::string_view>> schema_types(const Json& schema, const std::string& path);

/// A whole number from 0 to a million, or `otherwise` if the schema has none. ErrorKind::usage.
Result<std::uint32_t> schema_count(const Json& schema, const std::string& path,
                                   std::string_view name, std::uint32_t otherwise);

/// The names under `required`. ErrorKind::usage.
Result<std::vector<std::string>> schema_required(const Json& schema, const std::string& path);

}  // namespace sluice::text
