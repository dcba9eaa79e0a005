// What holds an answer to what was asked of it: JSON, or calls of tools.
#pragma once

#include <optional>
#include <string>

#include "server/api_error.h"
#include "server/response_format.h"
#include "server/served_model.h"
#include "server/task.h"
#include "text/chat.h"

namespace sluice::server {

/// The code of the error where the grammars of other requests have the room now (503).
inline constexpr const char* kNoGrammarRoom = "no_room_for_schema";

/// Tells the model of the JSON that is wanted, where its chat format can; before
/// add_conversation().
void tell_of_json(const std::optional<WantedJson>& json, const ServedModel& model,
                  text::ChatRequest& chat);

/// Sets the grammar of the answer where there is something to hold it to: JSON, a call that is
/// required, a tool that is strict. `schema_field`: where tools have their schema. The rest of the
/// request must have been read into `chat` and `generation`, its conversation included.
ApiStatus hold_answer(const std::optional<WantedJson>& json, const std::string& schema_field,
                      const ServedModel& model, const text::ChatRequest& chat,
                      Generation& generation);

}  // namespace sluice::server
