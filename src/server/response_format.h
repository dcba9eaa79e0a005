// Answers that have to be JSON.
#pragma once

#include <string>

#include "server/api_error.h"
#include "server/fields.h"
#include "server/served_model.h"
#include "server/task.h"

namespace sluice::server {

/// Reads OpenAI's response_format: text, json_object or json_schema. What the model is told of it
/// is set in `chat`; what holds the answer to it, in `generation`, whose other fields must have
/// been read.
ApiStatus read_response_format(Fields& fields, const ServedModel& model, text::ChatRequest& chat,
                               Generation& generation);

/// Reads Anthropic's output_config.format: json_schema.
ApiStatus read_output_format(const Json& format, const ServedModel& model, text::ChatRequest& chat,
                             Generation& generation);

}  // namespace sluice::server
