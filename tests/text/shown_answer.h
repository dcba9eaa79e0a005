// An answer in one line, to compare.
#pragma once

#include <fmt/format.h>

#include <string>

#include "text/answer_parser.h"

namespace sluice::text {

/// "[reasoning][text] tool(arguments)", with "..." behind a call that broke off and a full stop
/// behind an answer that ended.
inline std::string show(const Answer& answer) {
  std::string text = fmt::format("[{}][{}]", answer.reasoning, answer.text);
  for (const auto& call : answer.calls) {
    text += fmt::format(" {}({}){}", call.name, call.arguments, call.whole ? "" : "...");
  }
  return text + (answer.ended ? "." : "");
}

}  // namespace sluice::text
