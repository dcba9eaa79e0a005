// Places in a JSON schema, as messages name them.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice::text {

/// Many schemas wait to be read with their place, so it must not grow with the schema.
inline constexpr std::size_t kLongPlace = 400;

/// The place of a member, or of "[3]", in that of an object or list. A long one is cut.
inline std::string place_in(const std::string& place, std::string_view name) {
  if (place.size() > kLongPlace) return place.ends_with("...") ? place : place + "...";
  const bool is_item = name.starts_with('[');
  return fmt::format("{}{}{}", place, is_item ? "" : ".", name.substr(0, 80));
}

}  // namespace sluice::text
