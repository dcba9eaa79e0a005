// What --version prints.
#pragma once

#include <string_view>

namespace sluice::cli {

inline constexpr std::string_view kVersion = "0.1.0";  // as in CMakeLists.txt; a test compares

}  // namespace sluice::cli
