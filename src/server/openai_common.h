// What OpenAI's chat completions and completions share.
#pragma once

#include <cstdint>

#include "server/openai_request.h"

namespace sluice::server {

inline constexpr std::int64_t kMostLikeliest = 20;
inline constexpr std::int64_t kMostNew = std::int64_t{1} << 40;

/// Reads model, what is for sampling, stop, n, user, stream and stream_options.
ApiStatus read_common(Fields& fields, const ServedModel& model, OpenAiRequest& request);

}  // namespace sluice::server
