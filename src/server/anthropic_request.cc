// Requests of /v1/messages, turned into the messages that chat formats take.
#include <algorithm>
#include <optional>
#include <utility>

#include "server/anthropic.h"
#include "server/held_answer.h"
#include "server/request_parts.h"
#include "server/response_format.h"

namespace sluice::server {
namespace {

constexpr std::size_t kMostStops = 16;
constexpr std::int64_t kMostNew = std::int64_t{1} << 40;

/// A piece of a message, with the hint about caching that Sluice does not need: what a request
/// shares with earlier ones is found without it.
ApiResult<std::string> block_type(Fields& fields) {
  SLUICE_ASSIGN(const auto type, fields.text("type"));
  if (!type) return refuse(fields.name_of("type"), "is missing");
  SLUICE_TRY(fields.only("cache_control", {Json{{"type", "ephemeral"}}}));
  return *type;
}

ApiResult<std::string> text_block(const Json& block, const std::string& where) {
  if (!block.is_object()) return refuse(where, "must be an object");
  Fields fields(block, where);
  SLUICE_ASSIGN(const std::string type, block_type(fields));
  if (type != "text") return refuse(where + ".type", "only text is understood here");
  SLUICE_ASSIGN(const auto text, fields.text("text"));
  if (!text) return refuse(where + ".text", "is missing");
  SLUICE_TRY(fields.only("citations", {Json::array()}));
  SLUICE_TRY(fields.finish());
  return *text;
}

/// A string, or a list of text blocks, as a list of text parts.
ApiResult<Json> text_parts(const Json& content, const std::string& where) {
  if (content.is_string()) return content;
  if (!content.is_array()) return refuse(where, "must be a string or a list of blocks");
  Json parts = Json::array();
  for (std::size_t i = 0; i < content.size(); ++i) {
    SLUICE_ASSIGN(std::string text, text_block(content[i], fmt::format("{}[{}]", where, i)));
    parts.push_back({{"type", "text"}, {"text", std::move(text)}});
  }
  return parts;
}

/// Turns one message into those of the chat format: results of tools are messages of their own
/// there.
class MessageReader {
 public:
  explicit MessageReader(Json& messages) : messages_(messages) {}

  ApiStatus read(const Json& message, const std::string& where) {
    if (!message.is_object()) return refuse(where, "must be an object");
    Fields fields(message, where);
    SLUICE_ASSIGN(const auto role, fields.text("role"));
    const Json* const content = fields.get("content");
    SLUICE_TRY(fields.finish());
    if (role != "user" && role != "assistant") {
      return refuse(where + ".role", "must be user or assistant");
    }
    if (content == nullptr) return refuse(where + ".content", "is missing");
    message_ = {{"role", *role}, {"content", Json::array()}};
    if (content->is_string()) {
      message_["content"] = *content;
      messages_.push_back(std::move(message_));
      return {};
    }
    if (!content->is_array()) return refuse(where + ".content", "must be a string or a list");
    for (std::size_t i = 0; i < content->size(); ++i) {
      SLUICE_TRY(read_block((*content)[i], fmt::format("{}.content[{}]", where, i)));
    }
    if (*role == "assistant" || !message_["content"].empty()) {
      messages_.push_back(std::move(message_));
    }
    return {};
  }

 private:
  ApiStatus read_block(const Json& block, const std::string& where) {
    if (!block.is_object()) return refuse(where, "must be an object");
    Fields fields(block, where);
    SLUICE_ASSIGN(const std::string type, block_type(fields));
    const bool is_user = message_["role"] == "user";
    if (type == "text") {
      SLUICE_ASSIGN(std::string text, text_block(block, where));
      message_["content"].push_back({{"type", "text"}, {"text", std::move(text)}});
      return {};
    }
    if (type == "tool_result" && is_user) return read_result(fields);
    if (type == "tool_use" && !is_user) return read_use(fields);
    if (type == "thinking" && !is_user) return read_thinking(fields);
    return refuse(where + ".type", "\"{}\" is not supported in a message of this role",
                  type.substr(0, 40));
  }

  ApiStatus read_thinking(Fields& fields) {
    SLUICE_ASSIGN(const auto thinking, fields.text("thinking"));
    SLUICE_ASSIGN(const auto signature, fields.text("signature"));  // Sluice's own are empty
    SLUICE_TRY(fields.finish());
    if (!thinking || !signature.value_or("").empty()) {
      return refuse(fields.name_of("signature"), "is of another server");
    }
    message_["reasoning_content"] = message_.value("reasoning_content", "") + *thinking;
    return {};
  }

  ApiStatus read_use(Fields& fields) {
    SLUICE_ASSIGN(const auto id, fields.text("id"));
    SLUICE_ASSIGN(const auto name, fields.text("name"));
    const Json* const input = fields.get("input");
    SLUICE_TRY(fields.finish());
    if (!id) return refuse(fields.name_of("id"), "is missing");
    if (!name) return refuse(fields.name_of("name"), "is missing");
    if (input == nullptr || !input->is_object()) {
      return refuse(fields.name_of("input"), "must be an object");
    }
    Json& calls = message_["tool_calls"];
    if (calls.is_null()) calls = Json::array();
    calls.push_back({{"id", *id},
                     {"type", "function"},
                     {"function", {{"name", *name}, {"arguments", *input}}}});
    return {};
  }

  ApiStatus read_result(Fields& fields) {
    SLUICE_ASSIGN(const auto id, fields.text("tool_use_id"));
    const Json* const content = fields.get("content");
    SLUICE_ASSIGN(const auto is_error, fields.boolean("is_error"));
    SLUICE_TRY(fields.finish());
    if (!id) return refuse(fields.name_of("tool_use_id"), "is missing");
    Json parts = Json::array();
    if (is_error.value_or(false)) parts.push_back({{"type", "text"}, {"text", "Error: "}});
    if (content != nullptr) {
      SLUICE_ASSIGN(Json texts, text_parts(*content, fields.name_of("content")));
      if (texts.is_string()) texts = Json::array({{{"type", "text"}, {"text", texts}}});
      for (Json& text : texts) parts.push_back(std::move(text));
    }
    messages_.push_back({{"role", "tool"}, {"tool_call_id", *id}, {"content", std::move(parts)}});
    return {};
  }

  Json& messages_;
  Json message_;
};

ApiResult<Json> read_all(Fields& fields) {
  Json messages = Json::array();
  if (const Json* const system = fields.get("system"); system != nullptr) {
    SLUICE_ASSIGN(Json parts, text_parts(*system, "system"));
    messages.push_back({{"role", "system"}, {"content", std::move(parts)}});
  }
  const Json* const list = fields.get("messages");
  if (list == nullptr || !list->is_array() || list->empty()) {
    return refuse("messages", "must be a list of at least one message");
  }
  MessageReader reader(messages);
  for (std::size_t i = 0; i < list->size(); ++i) {
    SLUICE_TRY(reader.read((*list)[i], fmt::format("messages[{}]", i)));
  }
  if (list->back()["role"] == "assistant") {
    return refuse("messages",
                  "the last must be the user's; an answer cannot be begun for the model");
  }
  return messages;
}

ApiResult<Json> read_tool(const Json& tool, const std::string& where) {
  if (!tool.is_object()) return refuse(where, "must be an object");
  Fields fields(tool, where);
  SLUICE_TRY(fields.only("type", {"custom"}));
  SLUICE_TRY(fields.only("cache_control", {Json{{"type", "ephemeral"}}}));
  SLUICE_ASSIGN(const auto name, fields.text("name"));
  SLUICE_ASSIGN(const auto description, fields.text("description"));
  const Json* const schema = fields.get("input_schema");
  SLUICE_ASSIGN(const auto strict, fields.boolean("strict"));
  SLUICE_TRY(fields.finish());
  if (!name || name->empty() || name->size() > 128) {
    return refuse(where + ".name", "must be 1 to 128 characters");
  }
  if (schema == nullptr || !schema->is_object()) {
    return refuse(where + ".input_schema", "must be an object");
  }
  Json function = {{"name", *name}};
  if (description) function["description"] = *description;
  function["parameters"] = *schema;
  if (strict) function["strict"] = *strict;
  return Json{{"type", "function"}, {"function", std::move(function)}};
}

ApiStatus read_choice(Fields& fields, text::ChatRequest& chat, AnswerForm& form) {
  const Json* const choice = fields.get("tool_choice");
  if (choice == nullptr) return {};
  if (!choice->is_object()) return refuse("tool_choice", "must be an object");
  Fields inner(*choice, "tool_choice");
  SLUICE_ASSIGN(const auto type, inner.text("type"));
  SLUICE_ASSIGN(const auto name, inner.text("name"));
  SLUICE_ASSIGN(const auto one, inner.boolean("disable_parallel_tool_use"));
  SLUICE_TRY(inner.finish());
  form.one_call = one.value_or(false);
  if (type == "auto") return {};
  if (type == "none") {
    chat.tool_choice = "none";
    form.tools = false;
    return {};
  }
  if (type != "any" && type != "tool") {
    return refuse("tool_choice.type", "must be auto, any, tool or none");
  }
  chat.tool_choice = "required";
  if (type == "any") return {};
  for (const Json& tool : chat.tools) {
    if (!name || tool["function"]["name"] != *name) continue;
    Json chosen = Json::array({tool});
    chat.tools = std::move(chosen);
    return {};
  }
  return refuse("tool_choice.name", "names a tool that is not in tools");
}

ApiStatus read_tools(Fields& fields, text::ChatRequest& chat, AnswerForm& form) {
  const Json* const tools = fields.get("tools");
  if (tools == nullptr || (tools->is_array() && tools->empty())) {
    return fields.only("tool_choice", {Json{{"type", "auto"}}, Json{{"type", "none"}}});
  }
  if (!tools->is_array()) return refuse("tools", "must be a list");
  chat.tools = Json::array();
  for (std::size_t i = 0; i < tools->size(); ++i) {
    SLUICE_ASSIGN(Json tool, read_tool((*tools)[i], fmt::format("tools[{}]", i)));
    chat.tools.push_back(std::move(tool));
  }
  form.tools = true;
  return read_choice(fields, chat, form);
}

/// Off unless asked for, as with Anthropic. How much is an effort, not a number of tokens: K3 was
/// trained for that.
ApiStatus read_thinking(Fields& fields, const ServedModel& model, text::ChatRequest& chat,
                        std::optional<WantedJson>& json) {
  chat.thinking = false;
  const Json* const thinking = fields.get("thinking");
  if (thinking != nullptr) {
    if (!thinking->is_object()) return refuse("thinking", "must be an object");
    Fields inner(*thinking, "thinking");
    SLUICE_ASSIGN(const auto type, inner.text("type"));
    if (inner.get("budget_tokens") != nullptr) {
      return refuse("thinking.budget_tokens",
                    "is not supported; use {{\"type\": \"adaptive\"}} with output_config.effort");
    }
    SLUICE_TRY(inner.finish());
    if (type != "adaptive" && type != "disabled") {
      return refuse("thinking.type", "must be adaptive or disabled");
    }
    chat.thinking = type == "adaptive";
    if (chat.thinking && model.format->kind() != text::ChatFormat::Kind::kimi_k3) {
      return refuse("thinking", "this model does not think");
    }
  }
  const Json* const config = fields.get("output_config");
  if (config == nullptr) return {};
  if (!config->is_object()) return refuse("output_config", "must be an object");
  Fields inner(*config, "output_config");
  SLUICE_ASSIGN(const auto effort, inner.text("effort"));
  const Json* const format = inner.get("format");
  SLUICE_TRY(inner.finish());
  if (format != nullptr) {
    SLUICE_ASSIGN(json, read_output_format(*format));
  }
  if (!effort) return {};
  if (!chat.thinking) return refuse("output_config.effort", "needs thinking of type adaptive");
  if (*effort != "low" && *effort != "high" && *effort != "max") {
    return refuse("output_config.effort", "must be low, high or max; K3 was trained for no other");
  }
  chat.effort = *effort;
  return {};
}

ApiStatus read_settings(Fields& fields, MessagesRequest& request) {
  text::SamplingOptions& sampling = request.generation.sampling;
  SLUICE_ASSIGN(const auto temperature, fields.number("temperature", 0, 1));
  if (temperature) sampling.temperature = static_cast<float>(*temperature);
  SLUICE_ASSIGN(const auto top_p, fields.number("top_p", 1e-9, 1));
  if (top_p) sampling.top_p = static_cast<float>(*top_p);
  SLUICE_ASSIGN(const auto top_k, fields.integer("top_k", 0, INT32_MAX));
  if (top_k) sampling.top_k = static_cast<int>(*top_k);
  SLUICE_ASSIGN(request.generation.form.stops, fields.texts("stop_sequences", kMostStops));
  SLUICE_ASSIGN(const auto stream, fields.boolean("stream"));
  request.stream = stream.value_or(false);
  SLUICE_TRY(fields.only("service_tier", {"auto", "standard_only"}));
  const Json* const metadata = fields.get("metadata");
  if (metadata == nullptr) return {};
  if (!metadata->is_object()) return refuse("metadata", "must be an object");
  Fields inner(*metadata, "metadata");
  SLUICE_ASSIGN(const auto user, inner.text("user_id"));
  request.user = user.value_or("").substr(0, 256);
  return inner.finish();
}

}  // namespace

ApiResult<MessagesRequest> read_messages_request(const Json& body, const ServedModel& model,
                                                 const std::string& id, std::uint64_t seed) {
  if (!model.format) return tl::unexpected(ApiError{400, "this model has no chat format"});
  Fields fields(body);
  MessagesRequest request;
  request.generation.sampling.seed = seed;
  Generation& generation = request.generation;
  SLUICE_TRY(check_model(fields, model));
  SLUICE_ASSIGN(const auto max_new, fields.integer("max_tokens", 1, kMostNew));
  if (!max_new) return refuse("max_tokens", "is missing");
  SLUICE_TRY(read_settings(fields, request));
  text::ChatRequest chat;
  SLUICE_ASSIGN(chat.messages, read_all(fields));
  SLUICE_TRY(read_tools(fields, chat, generation.form));
  SLUICE_TRY(check_tools(chat, model));
  std::optional<WantedJson> json;
  SLUICE_TRY(read_thinking(fields, model, chat, json));
  SLUICE_TRY(fields.finish());
  generation.form.call_ids = id;
  SLUICE_TRY(hold_answer(json, "input_schema", model, chat, generation));
  SLUICE_TRY(add_conversation(chat, max_new, model, generation));
  return request;
}

}  // namespace sluice::server
