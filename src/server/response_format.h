// What requests say of answers that have to be JSON.
#pragma once

#include <optional>
#include <string>

#include "server/api_error.h"
#include "server/fields.h"

namespace sluice::server {

/// The text of an answer is to be JSON.
struct WantedJson {
  Json schema;
  std::string where;  ///< the field with the schema
  Json told;          ///< to the model, in OpenAI's words
};

/// Reads OpenAI's response_format: none for text, else json_object or json_schema.
ApiResult<std::optional<WantedJson>> read_response_format(Fields& fields);

/// Reads Anthropic's output_config.format: json_schema.
ApiResult<WantedJson> read_output_format(const Json& format);

}  // namespace sluice::server
