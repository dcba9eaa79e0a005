// Answers in OpenAI's shapes.
#pragma once

#include <memory>

#include "server/answer_writer.h"
#include "server/openai_request.h"

namespace sluice::server {

/// `id`: "chatcmpl-...". `created`: seconds since 1970.
std::unique_ptr<AnswerWriter> chat_writer(const OpenAiRequest& request, const ServedModel& model,
                                          std::string id, std::int64_t created);

/// `id`: "cmpl-...".
std::unique_ptr<AnswerWriter> completion_writer(const OpenAiRequest& request,
                                                const ServedModel& model, std::string id,
                                                std::int64_t created);

}  // namespace sluice::server
