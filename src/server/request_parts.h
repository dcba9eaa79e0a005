// What requests of all APIs have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/api_error.h"
#include "server/fields.h"
#include "server/served_model.h"
#include "server/task.h"
#include "text/chat.h"

namespace sluice::server {

/// Which adapter the request asks for by the model's name, or 0 (ServedModel::find()); 404 if it
/// asks for another model.
ApiResult<std::uint32_t> read_model(Fields& fields, const ServedModel& model);

/// 404.
ApiError no_such_model(std::string_view name, const ServedModel& model);

/// 400: the model has no chat format, with the reason.
ApiError no_chat(const ServedModel& model);

/// Room for at least one new token after the prompt, or 400 context_length_exceeded. Returns how
/// many new tokens there may be: `wanted` or what is left.
ApiResult<std::size_t> room_after(std::size_t prompt, std::optional<std::int64_t> wanted,
                                  const ServedModel& model, const std::string& field);

/// What of an answer has to be held before it is sent.
struct AnswerShape {
  bool stream = false;
  bool wanted = false;             ///< the request says how long it may be
  bool echo = false;               ///< it begins with its prompt
  std::string field = "logprobs";  ///< the one that asks for what is told of its tokens
};

/// Holds the answers of a request to the room that there is: all of them where they are sent as a
/// whole, what is told of the prompts in any case. They become shorter if nobody said how long
/// they may be, and are refused otherwise. One answer of any length has room, as long as nothing
/// is told of its tokens.
ApiStatus check_answer_room(Generation& generation, const AnswerShape& shape,
                            const ServedModel& model);

/// Adds a conversation as the prompt, and what its answers are and have room for.
ApiStatus add_conversation(const text::ChatRequest& chat, std::optional<std::int64_t> max_new,
                           const ServedModel& model, Generation& generation);

/// Of tools in OpenAI's form, each checked: a call says by the name which one is meant.
ApiStatus check_tool_names(const Json& tools);

/// Tools are for K3 and gpt-oss, whose answers are held to no call and no schema of one.
ApiStatus check_tools(const text::ChatRequest& chat, const ServedModel& model);

/// A seed for requests without one.
std::uint64_t random_seed();

}  // namespace sluice::server
