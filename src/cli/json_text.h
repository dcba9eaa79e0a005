// JSON that is written piece by piece.
#pragma once

#include <string>
#include <string_view>

#include "text/json.h"
#include "text/utf8.h"

namespace sluice::cli {

/// `text` as a JSON string, quotes included. Bytes that are no UTF-8 become U+FFFD.
inline std::string json_string(std::string_view text) {
  text::Utf8Stream clean;
  std::string out = "\"";
  text::append_json_escaped(clean.push(text), out);
  text::append_json_escaped(clean.finish(), out);
  return out + '"';
}

}  // namespace sluice::cli
