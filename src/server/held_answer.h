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

/// Sets the grammar of the answer where there is something to hold it to: JSON, a call that is
/// required, a tool that is strict. `schema_field`: where tools have their schema. The rest of the
/// request must have been read into `chat` and `generation`.
ApiStatus hold_answer(const std::optional<WantedJson>& json, const std::string& schema_field,
                      const ServedModel& model, text::ChatRequest& chat, Generation& generation);

}  // namespace sluice::server
