// Numbers as the reports write them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace sluice::cli {

/// "1,446,456,066,048"
std::string grouped(std::uint64_t number);

/// A memory size as one would type it: "16G", "761M".
std::string as_flag(std::uint64_t bytes);

/// "1.2 ms", "0.35 s", "6.5 s", "47 s", "3 min"
std::string duration(double seconds);

/// The document over several lines, with a line end. What is no UTF-8 becomes U+FFFD.
std::string dumped(const nlohmann::ordered_json& document);

}  // namespace sluice::cli
