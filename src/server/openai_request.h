// Requests of OpenAI's chat completions and completions, checked and turned into what the engine
// needs. What is not understood is refused by its field's name.
#pragma once

#include <string>
#include <vector>

#include "server/api_error.h"
#include "server/fields.h"
#include "server/served_model.h"
#include "server/task.h"

namespace sluice::server {

struct OpenAiRequest {
  Generation generation;
  std::string user;  ///< who asks, among those who share a key; for fair turns
  bool stream = false;
  bool include_usage = false;          ///< a last chunk of a stream with the counts
  std::vector<std::string> echo = {};  ///< by prompt: put before the answers; empty: nothing is
};

/// `id` begins the ids of calls of tools; `seed` draws where the request has none.
ApiResult<OpenAiRequest> read_chat_request(const Json& body, const ServedModel& model,
                                           const std::string& id, std::uint64_t seed);
ApiResult<OpenAiRequest> read_completion_request(const Json& body, const ServedModel& model,
                                                 std::uint64_t seed);

}  // namespace sluice::server
