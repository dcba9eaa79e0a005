// What reading headers and indexes share of JSON (simdjson, On-Demand).
//
// On-Demand checks only what it is asked for, so whoever uses it must ask for every value. Its
// errors are of two sorts: INCORRECT_TYPE, and any error of reading a number, leave the iteration
// intact; all others end it.
#pragma once

#include <simdjson.h>

#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "store/text_file.h"

namespace sluice::store {

namespace ondemand = simdjson::ondemand;

/// The text of a JSON string when it has no escapes: then it is what stands in the file.
inline std::optional<std::string_view> plain_text(ondemand::raw_json_string raw) {
  // The parser has made sure that each string ends and holds no zero byte, and zeros follow the
  // text. A quote after a backslash would end the view early, but then there is the backslash.
  const char* end = std::strchr(raw.raw(), '"');
  if (end == nullptr) return std::nullopt;
  const std::string_view text(raw.raw(), static_cast<std::size_t>(end - raw.raw()));
  if (text.find('\\') != std::string_view::npos) return std::nullopt;
  return text;
}

/// The key of `field`, valid UTF-8. The view holds until the next document, or as long as the
/// file's text.
inline simdjson::error_code key_of(ondemand::field& field, std::string_view& key) {
  if (const auto plain = plain_text(field.key())) {
    key = *plain;
    return simdjson::SUCCESS;
  }
  if (const auto error = field.unescaped_key().get(key)) return error;
  return is_utf8(key) ? simdjson::SUCCESS : simdjson::UTF8_ERROR;  // escapes can spell half of it
}

/// Like key_of() for a value that is a string; INCORRECT_TYPE when it is not.
inline simdjson::error_code text_of(ondemand::value value, std::string_view& text) {
  ondemand::json_type type;
  if (const auto error = value.type().get(type)) return error;
  if (type != ondemand::json_type::string) return simdjson::INCORRECT_TYPE;
  return value.get_string().get(text);
}

/// Whether nothing follows the root value, which must have been read to its end.
inline bool at_end(ondemand::document& document) {
  return document.current_location().error() == simdjson::OUT_OF_BOUNDS;
}

/// Checks a value that is not used. TAPE_ERROR and others when it is not JSON, DEPTH_ERROR when it
/// is nested deeper than anything sensible.
simdjson::error_code check_value(ondemand::value value, int depth = 0);

/// Hands the document in `text` to `read`, which returns an error when it met one. Returns the
/// empty string when all is well, else what is wrong and where: "at byte 123: <what the parser
/// says>".
std::string parse_document(ondemand::parser& parser, const PaddedText& text,
                           FunctionRef<simdjson::error_code(ondemand::document&)> read);

/// The JSON text of a value that is not what was expected, for a message.
std::string shown_json(ondemand::value value);

}  // namespace sluice::store
