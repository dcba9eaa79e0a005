// The description of the API at /openapi.json.
#pragma once

#include <string_view>

namespace sluice::server {

/// docs/openapi.json.
std::string_view openapi();

}  // namespace sluice::server
