// Tools as OpenAI's chat completions have them.
#pragma once

#include "server/answer_machine.h"
#include "server/api_error.h"
#include "server/fields.h"
#include "text/chat.h"

namespace sluice::server {

/// Reads tools, tool_choice and parallel_tool_calls: what the model is told, and how its answer is
/// to be read. A tool chosen by name is the only one that is offered, and a call of it required.
ApiStatus read_tools(Fields& fields, text::ChatRequest& chat, AnswerForm& form);

}  // namespace sluice::server
