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

/// Holds an answer that is sent as a whole to what there is room for to tell of its tokens. It
/// becomes shorter if nobody said how long it may be (`wanted`), and is refused otherwise. `field`
/// is the one that asks for that.
ApiStatus check_answer_room(Generation& generation, bool stream, bool wanted,
                            const ServedModel& model, const std::string& field);

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
