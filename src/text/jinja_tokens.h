// The tokens of a chat template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::text::jinja {

struct Token {
  enum class Kind : std::uint8_t {
    text,  ///< outside of all tags
    begin_output,
    end_output,
    begin_block,
    end_block,
    name,
    string,
    integer,
    real,
    sign,  ///< an operator or a bracket
    end,   ///< of the template
  };
  Kind kind;
  std::string text;
  std::size_t line;
};

/// Cuts a template into tokens; the last is of Kind::end. White space around tags goes as with
/// trim_blocks and lstrip_blocks, which is how chat templates are rendered.
Result<std::vector<Token>> tokens_of(std::string_view source);

}  // namespace sluice::text::jinja
