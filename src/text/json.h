// JSON in and out, with what chat formats need of it: bounded nesting, keys in their own order,
// numbers as they were written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::text {

using Json = nlohmann::ordered_json;

/// Deepest nesting and most members of one object that parse_json() accepts. What it returns can be
/// walked recursively on the smallest stack in the program.
inline constexpr std::size_t kJsonDepth = 100;
inline constexpr std::size_t kJsonMembers = 4096;

/// What parse_json() takes beyond the nesting.
struct JsonRules {
  bool unique_names = false;      ///< refuse an object that has a name twice
  std::size_t values = SIZE_MAX;  ///< at most this many values in all
};

/// Parses one JSON text (RFC 8259, UTF-8, no byte order mark). `what` names it in messages, which
/// have the given kind. Of members with one name the last value counts, at the place of the first.
/// An integer beyond 64 bits becomes a binary value that holds its digits.
Result<Json> parse_json(std::string_view text, std::string_view what, ErrorKind kind,
                        const JsonRules& rules = {});

/// True if parse_json() would accept the text.
bool is_json(std::string_view text);

/// How Python's json.dumps(value, ensure_ascii=False, ...) would write it.
enum class JsonForm {
  spaced,          ///< ", " and ": ", keys in their own order: the default of json.dumps
  compact_sorted,  ///< "," and ":", keys sorted by code point at every level
};
/// Writes `value` byte for byte as Python does, from its repr of floats (1.0, 1e-05, 1e+16) to its
/// choice of escapes. The value is nested kJsonDepth deep at most.
std::string python_json(const Json& value, JsonForm form);

/// What python_json() wrote in form `spaced`, a line for each item, as Python's json.dumps does it
/// with this `indent`.
std::string indented_json(std::string_view spaced, std::size_t indent);

/// Appends `text` as the inside of a JSON string (without quotes).
void append_json_escaped(std::string_view text, std::string& out);

/// True for numbers of any size (see parse_json).
bool is_json_number(const Json& value);

}  // namespace sluice::text
