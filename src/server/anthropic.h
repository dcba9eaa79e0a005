// Anthropic's messages on the same core: /v1/messages.
#pragma once

#include <memory>
#include <string>

#include "server/answer_writer.h"
#include "server/fields.h"
#include "server/served_model.h"
#include "server/task.h"

namespace sluice::server {

struct MessagesRequest {
  Generation generation;
  std::string user;
  bool stream = false;
};

/// `id` begins the ids of calls of tools; `seed` draws.
ApiResult<MessagesRequest> read_messages_request(const Json& body, const ServedModel& model,
                                                 const std::string& id, std::uint64_t seed);

/// `id`: "msg_...".
std::unique_ptr<AnswerWriter> messages_writer(const MessagesRequest& request,
                                              const ServedModel& model, std::string id);

}  // namespace sluice::server
