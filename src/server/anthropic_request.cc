// Requests of /v1/messages.
#include <algorithm>
#include <optional>
#include <utility>

#include "server/anthropic.h"
#include "server/anthropic_messages.h"
#include "server/held_answer.h"
#include "server/request_parts.h"
#include "server/response_format.h"

namespace sluice::server {
namespace {

constexpr std::size_t kMostStops = 16;
constexpr std::int64_t kMostNew = std::int64_t{1} << 40;

ApiResult<Json> read_tool(const Json& tool, const std::string& where) {
  if (!tool.is_object()) return refuse(where, "must be an object");
  Fields fields(tool, where);
  SLUICE_TRY(fields.only("type", {"custom"}));
  SLUICE_TRY(read_cache_control(fields));
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
  SLUICE_TRY(check_tool_names(chat.tools));
  form.tools = true;
  return read_choice(fields, chat, form);
}

/// Off unless asked for, as with Anthropic. How much is an effort, not a number of tokens: K3 was
/// trained for that.
ApiStatus read_thinking(Fields& fields, const ServedModel& model, text::ChatRequest& chat,
                        std::optional<WantedJson>& json) {
  using Kind = text::ChatFormat::Kind;
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
    if (chat.thinking && model.format->kind() != Kind::kimi_k3 &&
        model.format->kind() != Kind::harmony) {
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
  if (model.format->kind() == Kind::harmony) {
    if (*effort != "low" && *effort != "medium" && *effort != "high") {
      return refuse("output_config.effort", "must be low, medium or high for this model");
    }
  } else if (*effort != "low" && *effort != "high" && *effort != "max") {
    return refuse("output_config.effort", "must be low, high or max; K3 was trained for no other");
  }
  chat.effort = *effort;
  return {};
}

ApiStatus read_settings(Fields& fields, MessagesRequest& request) {
  text::SamplingOptions& sampling = request.generation.sampling;
  SLUICE_ASSIGN(const auto temperature, fields.number("temperature", 0, 1));
  if (temperature) sampling.temperature = static_cast<float>(*temperature);
  SLUICE_ASSIGN(const auto top_p, fields.number("top_p", 0, 1));
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
  if (!model.format) return tl::unexpected(no_chat(model));
  Fields fields(body);
  MessagesRequest request;
  request.generation.sampling.seed = seed;
  Generation& generation = request.generation;
  SLUICE_ASSIGN(generation.adapter, read_model(fields, model));
  SLUICE_ASSIGN(const auto max_new, fields.integer("max_tokens", 1, kMostNew));
  if (!max_new) return refuse("max_tokens", "is missing");
  SLUICE_TRY(read_settings(fields, request));
  text::ChatRequest chat;
  chat.now = text::local_now();
  SLUICE_ASSIGN(chat.messages, read_anthropic_messages(fields));
  SLUICE_TRY(read_tools(fields, chat, generation.form));
  SLUICE_TRY(check_tools(chat, model));
  std::optional<WantedJson> json;
  SLUICE_TRY(read_thinking(fields, model, chat, json));
  SLUICE_TRY(fields.finish());
  generation.form.call_ids = id;
  tell_of_json(json, model, chat);
  SLUICE_TRY(add_conversation(chat, max_new, model, generation));
  SLUICE_TRY(hold_answer(json, "input_schema", model, chat, generation));
  return request;
}

}  // namespace sluice::server
