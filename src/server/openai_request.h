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

/// Room for at least one new token after the prompt, or 400 context_length_exceeded. Returns how
/// many new tokens there may be: `wanted` or what is left.
ApiResult<std::size_t> room_after(std::size_t prompt, std::optional<std::int64_t> wanted,
                                  const ServedModel& model, const std::string& field);

/// Adds a conversation as the prompt, and what its answers are and have room for.
ApiStatus add_conversation(const text::ChatRequest& chat, std::optional<std::int64_t> max_new,
                           const ServedModel& model, Generation& generation);

/// 404 if the request asks for another model.
ApiStatus check_model(Fields& fields, const ServedModel& model);

/// 404.
ApiError no_such_model(std::string_view name, const ServedModel& model);

/// Only K3's way to call tools is understood in answers.
ApiStatus check_tools(const text::ChatRequest& chat, const ServedModel& model);

/// A seed for requests without one.
std::uint64_t random_seed();

}  // namespace sluice::server
