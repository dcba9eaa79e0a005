// What chat templates can call: filters, tests and methods of values.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_value.h"

namespace sluice::text::jinja {

/// Arguments of a call; those with a name come last.
struct Arguments {
  std::vector<Value> values;
  std::vector<std::string> names;  ///< of the last names.size() values

  std::size_t unnamed() const { return values.size() - names.size(); }
  /// The argument at this place or of this name, or nothing.
  const Value* get(std::size_t index, std::string_view name) const;
};

/// All fail with ErrorKind::usage, saying what was asked for.
Result<Value> apply_filter(std::string_view name, const Value& value, const Arguments& arguments);
Result<bool> apply_test(std::string_view name, const Value& value, const Arguments& arguments);
Result<Value> call_method(std::string_view name, const Value& value, const Arguments& arguments);

/// Adds, joins or compares; `sign` as in Node::binary, and and or excepted.
Result<Value> apply_operator(std::string_view sign, const Value& left, const Value& right);

}  // namespace sluice::text::jinja
