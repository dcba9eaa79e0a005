// Requests of OpenAI's chat completions.
#include <optional>
#include <utility>

#include "server/held_answer.h"
#include "server/openai_common.h"
#include "server/openai_tools.h"
#include "server/request_parts.h"
#include "server/response_format.h"

namespace sluice::server {
namespace {

ApiResult<std::optional<std::int64_t>> read_max_new(Fields& fields) {
  SLUICE_ASSIGN(const auto tokens, fields.integer("max_tokens", 1, kMostNew));
  SLUICE_ASSIGN(const auto newer, fields.integer("max_completion_tokens", 1, kMostNew));
  if (tokens && newer && *tokens != *newer) {
    return refuse("max_tokens", "is not the same as max_completion_tokens; send one of them");
  }
  return newer ? newer : tokens;
}

/// A message's role, and that it has the text that goes with it.
ApiStatus check_role(Fields& message, const std::string& where) {
  SLUICE_ASSIGN(const auto role, message.text("role"));
  if (!role) return refuse(where + ".role", "is missing");
  const bool has_text = *role == "system" || *role == "developer" || *role == "user";
  if (!has_text && *role != "assistant" && *role != "tool") {
    return refuse(where + ".role", "must be system, developer, user, assistant or tool, not \"{}\"",
                  role->substr(0, 40));
  }
  const bool declares_tools = message.get("tools") != nullptr;
  if (has_text && !declares_tools && message.get("content") == nullptr) {
    return refuse(where + ".content", "must be a string or a list of parts");
  }
  return {};
}

/// One field of a message that Sluice has no use for: nothing may be in it.
ApiStatus check_message(const Json& message, const std::string& where) {
  if (!message.is_object()) return refuse(where, "must be an object");
  Fields fields(message, where);
  for (const char* known : {"role", "content", "name", "reasoning_content", "reasoning",
                            "tool_calls", "tool_call_id", "tool", "tools"}) {
    fields.get(known);
  }
  for (const char* empty : {"annotations", "refusal"}) {
    SLUICE_TRY(fields.only(empty, {Json::array(), ""}));
  }
  SLUICE_TRY(fields.finish());
  return check_role(fields, where);
}

ApiResult<Json> read_messages(Fields& fields) {
  const Json* const messages = fields.get("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return refuse("messages", "must be a list of at least one message");
  }
  Json result = *messages;
  for (std::size_t i = 0; i < result.size(); ++i) {
    SLUICE_TRY(check_message(result[i], fmt::format("messages[{}]", i)));
    // The newer name of the same role.
    const auto role = result[i].find("role");
    if (role != result[i].end() && *role == "developer") *role = "system";
  }
  return result;
}

/// gpt-oss always thinks.
ApiStatus read_channel_effort(const std::optional<std::string>& effort, text::ChatRequest& chat) {
  if (!effort) return {};
  if (*effort != "low" && *effort != "medium" && *effort != "high") {
    return refuse("reasoning_effort", "must be low, medium or high for this model");
  }
  chat.effort = *effort;
  return {};
}

/// K3 thinks with low, high or max effort; none is an answer without thinking.
ApiStatus read_effort(Fields& fields, const ServedModel& model, text::ChatRequest& chat) {
  SLUICE_ASSIGN(const auto effort, fields.text("reasoning_effort"));
  if (model.format->kind() == text::ChatFormat::Kind::harmony) {
    return read_channel_effort(effort, chat);
  }
  if (model.format->kind() != text::ChatFormat::Kind::kimi_k3) {
    // The model may know thinking, but no effort.
    chat.thinking = effort != "none";
    if (effort && *effort != "none") {
      return refuse("reasoning_effort", "may only be none for this model");
    }
    return {};
  }
  if (!effort) return {};
  if (*effort == "none") {
    chat.thinking = false;
  } else if (*effort == "low" || *effort == "high" || *effort == "max") {
    chat.effort = *effort;
  } else {
    return refuse("reasoning_effort",
                  "must be none, low, high or max; K3 was trained for no other");
  }
  return {};
}

ApiStatus read_chat_log_probabilities(Fields& fields, Generation& generation) {
  SLUICE_ASSIGN(const auto wanted, fields.boolean("logprobs"));
  SLUICE_ASSIGN(const auto top, fields.integer("top_logprobs", 0, kMostLikeliest));
  if (top && !wanted.value_or(false)) return refuse("top_logprobs", "needs \"logprobs\": true");
  if (wanted.value_or(false)) {
    generation.log_probabilities = static_cast<std::size_t>(top.value_or(0));
  }
  return {};
}

/// Fields that may only say what is done anyway.
ApiStatus check_fixed(Fields& fields) {
  SLUICE_TRY(fields.only("modalities", {Json::array({"text"})}));
  SLUICE_TRY(fields.only("store", {false}));
  SLUICE_TRY(fields.only("service_tier", {"auto", "default"}));
  SLUICE_TRY(fields.only("background", {false}));
  return fields.finish();
}

}  // namespace

ApiResult<OpenAiRequest> read_chat_request(const Json& body, const ServedModel& model,
                                           const std::string& id, std::uint64_t seed) {
  if (!model.format) return tl::unexpected(no_chat(model));
  Fields fields(body);
  OpenAiRequest request;
  request.generation.sampling.seed = seed;
  SLUICE_TRY(read_common(fields, model, request));
  SLUICE_ASSIGN(const auto max_new, read_max_new(fields));
  Generation& generation = request.generation;
  text::ChatRequest chat;
  chat.now = text::local_now();
  SLUICE_ASSIGN(chat.messages, read_messages(fields));
  SLUICE_TRY(read_tools(fields, chat, generation.form));
  SLUICE_TRY(check_tools(chat, model));
  SLUICE_TRY(read_effort(fields, model, chat));
  SLUICE_TRY(read_chat_log_probabilities(fields, generation));
  SLUICE_ASSIGN(const auto json, read_response_format(fields));
  SLUICE_TRY(check_fixed(fields));
  generation.form.call_ids = id;
  tell_of_json(json, model, chat);
  SLUICE_TRY(add_conversation(chat, max_new, model, generation));
  const char* const telling = generation.log_probabilities > 0u ? "top_logprobs" : "logprobs";
  SLUICE_TRY(
      check_answer_room(generation, {request.stream, max_new.has_value(), false, telling}, model));
  SLUICE_TRY(hold_answer(json, "function.parameters", model, chat, generation));
  return request;
}

}  // namespace sluice::server
