// The messages of /v1/messages, turned into those that chat formats take.
#pragma once

#include "server/api_error.h"
#include "server/fields.h"

namespace sluice::server {

/// Reads the hint about caching, which Sluice does not need: what a request shares with earlier
/// ones is found without it.
ApiStatus read_cache_control(Fields& fields);

/// Reads system and messages into a list as text::ChatRequest has it.
ApiResult<Json> read_anthropic_messages(Fields& fields);

}  // namespace sluice::server
