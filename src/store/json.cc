#include "store/json.h"

#include <algorithm>
#include <utility>

#include "store/faults.h"

namespace sluice::store {
namespace {

constexpr int kMaxDepth = 32;

simdjson::error_code check_object(ondemand::object object, int depth) {
  for (auto result : object) {
    ondemand::field field;
    if (const auto error = std::move(result).get(field)) return error;
    std::string_view key;
    if (const auto error = key_of(field, key)) return error;
    if (const auto error = check_value(field.value(), depth)) return error;
  }
  return simdjson::SUCCESS;
}

simdjson::error_code check_array(ondemand::array array, int depth) {
  for (auto result : array) {
    ondemand::value element;
    if (const auto error = std::move(result).get(element)) return error;
    if (const auto error = check_value(element, depth)) return error;
  }
  return simdjson::SUCCESS;
}

/// Checks a number: any that is JSON, whatever its size.
simdjson::error_code check_number(ondemand::value value) {
  double number = 0;
  return value.get_double().get(number);
}

}  // namespace

simdjson::error_code check_value(ondemand::value value, int depth) {
  if (depth > kMaxDepth) return simdjson::DEPTH_ERROR;
  ondemand::json_type type;
  if (const auto error = value.type().get(type)) return error;
  switch (type) {
    case ondemand::json_type::object: {
      ondemand::object object;
      if (const auto error = value.get_object().get(object)) return error;
      return check_object(object, depth + 1);
    }
    case ondemand::json_type::array: {
      ondemand::array array;
      if (const auto error = value.get_array().get(array)) return error;
      return check_array(array, depth + 1);
    }
    case ondemand::json_type::string: {
      std::string_view text;
      return value.get_string().get(text);
    }
    case ondemand::json_type::number:
      return check_number(value);
    case ondemand::json_type::boolean: {
      bool truth = false;
      return value.get_bool().get(truth);
    }
    case ondemand::json_type::null: {
      bool null = false;
      if (const auto error = value.is_null().get(null)) return error;
      return null ? simdjson::SUCCESS : simdjson::N_ATOM_ERROR;
    }
  }
  return simdjson::TAPE_ERROR;
}

std::string parse_document(ondemand::parser& parser, const PaddedText& text,
                           FunctionRef<simdjson::error_code(ondemand::document&)> read) {
  const std::string_view json = text.view();
  ondemand::document document;
  if (const auto error =
          parser.iterate(json.data(), json.size(), text.padded_size()).get(document)) {
    return simdjson::error_message(error);
  }
  const auto error = read(document);
  if (!error) return {};
  std::size_t offset = json.size();  // where the parser is when it has no location to tell
  const char* at = nullptr;
  if (!document.current_location().get(at)) {
    offset = std::min(offset, static_cast<std::size_t>(at - json.data()));
  }
  return fmt::format("at byte {}: {}", offset, simdjson::error_message(error));
}

std::string shown_json(ondemand::value value) {
  std::string_view token = value.raw_json_token();
  while (!token.empty() && (token.back() == ' ' || token.back() == '\n' || token.back() == '\t' ||
                            token.back() == '\r')) {
    token.remove_suffix(1);
  }
  if (token.starts_with('{')) return "an object";
  if (token.starts_with('[')) return "a list";
  if (token.starts_with('"')) return fmt::format("the string {}", shown(token));
  return shown(token);
}

}  // namespace sluice::store
