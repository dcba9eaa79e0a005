// Grammars of whole answers: what a chat format puts around the JSON and the calls that were asked
// for.
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

/// What the model may think before its answer, which is free.
enum class Thought : std::uint8_t {
  none,
  allowed,  ///< it may begin to think, where the format has markers for it
  begun,    ///< the prompt ended inside the reasoning (ChatFormat::opens_reasoning())
};

/// Answers whose text fits a JSON schema (see add_schema). `format`: none for a text that is
/// continued, which is JSON then. `where` begins messages.
Result<AnswerGrammar> json_answer(const Tokenizer& tokenizer,
                                  const std::optional<ChatFormat>& format, Thought thought,
                                  const Json& schema, const std::string& where);

/// What an answer in K3's format may be besides what the model thinks before it.
struct CallingAnswer {
  const Json* tools;  ///< a list of at least one, as OpenAI's API has it
  std::string schema_field = "function.parameters";  ///< what the client calls a tool's schema
  bool must_call = false;        ///< else it may be a text instead, or have one before its calls
  const Json* schema = nullptr;  ///< of a text without calls, with which none comes before calls
  std::string where = {};        ///< names the schema in messages
};

/// Answers that call tools (see k3_calls). `thinking`: Thought::begun. Calls that must come do so
/// at once: no text is before them that would have to come to an end first.
Result<AnswerGrammar> calling_answer(const Tokenizer& tokenizer, bool thinking,
                                     const CallingAnswer& asked);

}  // namespace sluice::text
