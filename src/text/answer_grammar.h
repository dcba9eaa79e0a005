// Grammars of whole answers: what a chat format puts around the JSON that was asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/chat.h"
#include "text/grammar.h"
#include "text/json.h"
#include "text/tokenizer.h"

namespace sluice::text {

struct AnswerGrammar {
  std::shared_ptr<const Grammar> grammar;  ///< none: the answer is free
  std::vector<std::int32_t> end_ids = {};  ///< end the answer, beside those of the model
};

/// Answers whose text fits a JSON schema (see add_schema). `format`: none for a text that is
/// continued, which is JSON then. `thinking`: the model may think before, which is free.
/// `where` begins messages.
Result<AnswerGrammar> json_answer(const Tokenizer& tokenizer,
                                  const std::optional<ChatFormat>& format, bool thinking,
                                  const Json& schema, const std::string& where);

}  // namespace sluice::text
