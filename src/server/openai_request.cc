#include "server/openai_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <random>
#include <utility>

#include "server/response_format.h"
#include "text/utf8.h"

namespace sluice::server {
namespace {

constexpr std::int64_t kMostChoices = 16;
constexpr std::size_t kMostStops = 16;
constexpr std::size_t kMostPrompts = 128;
constexpr std::int64_t kMostLikeliest = 20;
constexpr std::int64_t kMostNew = std::int64_t{1} << 40;
constexpr std::size_t kMostBiases = 1024;

ApiStatus read_bias(Fields& fields, const ServedModel& model, text::SamplingOptions& sampling) {
  const Json* const bias = fields.get("logit_bias");
  if (bias == nullptr) return {};
  if (!bias->is_object() || bias->size() > kMostBiases) {
    return refuse("logit_bias", "must be an object of at most {} token ids", kMostBiases);
  }
  for (const auto& [name, value] : bias->items()) {
    std::int32_t id = 0;
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data(), end, id);
    if (error != std::errc() || rest != end || id < 0 ||
        static_cast<std::size_t>(id) >= model.vocabulary) {
      return refuse("logit_bias", "\"{}\" is not a token id below {}", name.substr(0, 40),
                    model.vocabulary);
    }
    if (!value.is_number() || !(value.get<double>() >= -100 && value.get<double>() <= 100)) {
      return refuse("logit_bias", "the bias of token {} must be a number from -100 to 100", id);
    }
    sampling.bias.emplace_back(id, value.get<float>());
  }
  return {};
}

ApiStatus read_sampling(Fields& fields, const ServedModel& model, text::SamplingOptions& sampling) {
  const auto take = [](const std::optional<double>& value, float& target) {
    if (value) target = static_cast<float>(*value);
  };
  SLUICE_ASSIGN(const auto temperature, fields.number("temperature", 0, 2));
  take(temperature, sampling.temperature);
  SLUICE_ASSIGN(const auto top_p, fields.number("top_p", 1e-9, 1));
  take(top_p, sampling.top_p);
  SLUICE_ASSIGN(const auto min_p, fields.number("min_p", 0, 1));
  take(min_p, sampling.min_p);
  SLUICE_ASSIGN(const auto top_k, fields.integer("top_k", 0, INT32_MAX));
  if (top_k) sampling.top_k = static_cast<int>(*top_k);
  SLUICE_ASSIGN(const auto presence, fields.number("presence_penalty", -2, 2));
  take(presence, sampling.presence_penalty);
  SLUICE_ASSIGN(const auto frequency, fields.number("frequency_penalty", -2, 2));
  take(frequency, sampling.frequency_penalty);
  SLUICE_ASSIGN(const auto seed, fields.integer("seed", INT64_MIN, INT64_MAX));
  if (seed) sampling.seed = static_cast<std::uint64_t>(*seed);
  return read_bias(fields, model, sampling);
}

/// What both kinds of requests share.
ApiStatus read_common(Fields& fields, const ServedModel& model, OpenAiRequest& request) {
  SLUICE_TRY(check_model(fields, model));
  SLUICE_TRY(read_sampling(fields, model, request.generation.sampling));
  SLUICE_ASSIGN(request.generation.form.stops, fields.texts("stop", kMostStops));
  SLUICE_ASSIGN(const auto choices, fields.integer("n", 1, kMostChoices));
  request.generation.choices = static_cast<std::size_t>(choices.value_or(1));
  SLUICE_ASSIGN(const auto user, fields.text("user"));
  request.user = user.value_or("").substr(0, 256);
  SLUICE_ASSIGN(const auto stream, fields.boolean("stream"));
  request.stream = stream.value_or(false);
  const Json* const options = fields.get("stream_options");
  if (options == nullptr) return {};
  if (!request.stream) return refuse("stream_options", "needs \"stream\": true");
  if (!options->is_object()) return refuse("stream_options", "must be an object");
  Fields inner(*options, "stream_options");
  SLUICE_ASSIGN(const auto usage, inner.boolean("include_usage"));
  request.include_usage = usage.value_or(false);
  SLUICE_TRY(inner.only("include_obfuscation", {false}));
  return inner.finish();
}

ApiResult<std::optional<std::int64_t>> read_max_new(Fields& fields) {
  SLUICE_ASSIGN(const auto tokens, fields.integer("max_tokens", 1, kMostNew));
  SLUICE_ASSIGN(const auto newer, fields.integer("max_completion_tokens", 1, kMostNew));
  if (tokens && newer && *tokens != *newer) {
    return refuse("max_tokens", "is not the same as max_completion_tokens; send one of them");
  }
  return newer ? newer : tokens;
}

// ----- chat
// ---------------------------------------------------------------------------------------

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
  return fields.finish();
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

bool is_tool_name(const Json& name) {
  if (!name.is_string()) return false;
  const auto& text = name.get_ref<const std::string&>();
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.';
  });
}

ApiStatus check_tool(const Json& tool, const std::string& where) {
  if (!tool.is_object()) return refuse(where, "must be an object");
  Fields fields(tool, where);
  SLUICE_ASSIGN(const auto type, fields.text("type"));
  if (type != "function") return refuse(where + ".type", "must be \"function\"");
  const Json* const function = fields.get("function");
  if (function == nullptr || !function->is_object()) {
    return refuse(where + ".function", "must be an object");
  }
  SLUICE_TRY(fields.finish());
  Fields inner(*function, where + ".function");
  const Json* const name = inner.get("name");
  if (name == nullptr || !is_tool_name(*name)) {
    return refuse(inner.name_of("name"), "must be 1 to 128 letters, digits, _, - and dots");
  }
  SLUICE_TRY(inner.text("description"));
  const Json* const parameters = inner.get("parameters");
  if (parameters != nullptr && !parameters->is_object()) {
    return refuse(inner.name_of("parameters"), "must be an object");
  }
  SLUICE_TRY(inner.only("strict", {false}));
  return inner.finish();
}

/// A choice of one tool by name: that tool alone is offered, and a call is required.
ApiStatus choose_tool(const Json& choice, text::ChatRequest& chat) {
  const auto function = choice.find("function");
  if (choice.value("type", "") != "function" || choice.size() != 2 || function == choice.end() ||
      !function->is_object() || function->size() != 1 || !function->contains("name")) {
    return refuse("tool_choice",
                  "must be none, auto, required or {{\"type\": \"function\", "
                  "\"function\": {{\"name\": ...}}}}");
  }
  for (const Json& tool : chat.tools) {
    if (tool["function"]["name"] != (*function)["name"]) continue;
    Json chosen = Json::array({tool});
    chat.tools = std::move(chosen);
    chat.tool_choice = "required";
    return {};
  }
  return refuse("tool_choice", "names a tool that is not in tools");
}

ApiStatus read_tools(Fields& fields, text::ChatRequest& chat, AnswerForm& form) {
  const Json* const tools = fields.get("tools");
  const Json* const choice = fields.get("tool_choice");
  SLUICE_ASSIGN(const auto parallel, fields.boolean("parallel_tool_calls"));
  if (tools == nullptr || (tools->is_array() && tools->empty())) {
    if (choice != nullptr && *choice != "none" && *choice != "auto") {
      return refuse("tool_choice", "needs tools");
    }
    return {};
  }
  if (!tools->is_array()) return refuse("tools", "must be a list");
  for (std::size_t i = 0; i < tools->size(); ++i) {
    SLUICE_TRY(check_tool((*tools)[i], fmt::format("tools[{}]", i)));
  }
  chat.tools = *tools;
  form.one_call = !parallel.value_or(true);
  form.tools = true;
  if (choice == nullptr) return {};
  if (choice->is_object()) return choose_tool(*choice, chat);
  if (*choice != "none" && *choice != "auto" && *choice != "required") {
    return refuse("tool_choice", "must be none, auto, required or a function");
  }
  chat.tool_choice = *choice;
  form.tools = *choice != "none";
  return {};
}

/// K3 thinks with low, high or max effort; none is an answer without thinking.
ApiStatus read_effort(Fields& fields, const ServedModel& model, text::ChatRequest& chat) {
  SLUICE_ASSIGN(const auto effort, fields.text("reasoning_effort"));
  if (model.format->kind() != text::ChatFormat::Kind::kimi_k3) {
    // A template of the model's own may know thinking, but no effort.
    chat.thinking = model.format->kind() == text::ChatFormat::Kind::jinja && effort != "none";
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

// ----- completions
// --------------------------------------------------------------------------------

ApiResult<std::vector<std::int32_t>> read_ids(const Json& list, const ServedModel& model) {
  std::vector<std::int32_t> ids;
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 ||
        id.get<std::int64_t>() >= static_cast<std::int64_t>(model.vocabulary)) {
      return refuse("prompt", "a list of numbers must be of token ids below {}", model.vocabulary);
    }
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

/// A string, a list of ids, or a list of either.
ApiStatus read_prompts(Fields& fields, const ServedModel& model, OpenAiRequest& request,
                       std::vector<std::string>& texts) {
  const Json* const prompt = fields.get("prompt");
  if (prompt == nullptr) return refuse("prompt", "is missing");
  const auto add = [&](const Json& one) -> ApiStatus {
    std::vector<std::int32_t> ids;
    if (one.is_string()) {
      const auto& text = one.get_ref<const std::string&>();
      auto encoded = model.tokenizer->encode(text, text::Tokenizer::Special::as_text);
      if (!encoded) return refuse("prompt", "{}", encoded.error().message);
      ids = std::move(*encoded);
      texts.push_back(text);
    } else {
      if (!one.is_array()) return refuse("prompt", "must be text or token ids");
      SLUICE_ASSIGN(ids, read_ids(one, model));
      texts.push_back(model.tokenizer->decode(ids));
    }
    if (ids.empty()) return refuse("prompt", "is empty; a model can only continue something");
    request.generation.prompts.push_back(std::move(ids));
    return {};
  };
  const bool is_list = prompt->is_array() && !prompt->empty() && !(*prompt)[0].is_number();
  if (!is_list) return add(*prompt);
  if (prompt->size() > kMostPrompts) {
    return refuse("prompt", "at most {} prompts go in one request", kMostPrompts);
  }
  for (const Json& one : *prompt) SLUICE_TRY(add(one));
  return {};
}

}  // namespace

ApiResult<OpenAiRequest> read_chat_request(const Json& body, const ServedModel& model,
                                           const std::string& id, std::uint64_t seed) {
  if (!model.format) {
    return tl::unexpected(ApiError{400, "this model has no chat format; use /v1/completions"});
  }
  Fields fields(body);
  OpenAiRequest request;
  request.generation.sampling.seed = seed;
  SLUICE_TRY(read_common(fields, model, request));
  SLUICE_ASSIGN(const auto max_new, read_max_new(fields));
  Generation& generation = request.generation;
  text::ChatRequest chat;
  SLUICE_ASSIGN(chat.messages, read_messages(fields));
  SLUICE_TRY(read_tools(fields, chat, generation.form));
  SLUICE_TRY(check_tools(chat, model));
  SLUICE_TRY(read_effort(fields, model, chat));
  SLUICE_TRY(read_chat_log_probabilities(fields, generation));
  SLUICE_TRY(read_response_format(fields, model, chat, generation));
  SLUICE_TRY(check_fixed(fields));
  generation.form.call_ids = id;
  SLUICE_TRY(add_conversation(chat, max_new, model, generation));
  return request;
}

ApiResult<OpenAiRequest> read_completion_request(const Json& body, const ServedModel& model,
                                                 std::uint64_t seed) {
  Fields fields(body);
  OpenAiRequest request;
  request.generation.sampling.seed = seed;
  SLUICE_TRY(read_common(fields, model, request));
  SLUICE_ASSIGN(const auto max_new, fields.integer("max_tokens", 0, kMostNew));
  std::vector<std::string> texts;
  SLUICE_TRY(read_prompts(fields, model, request, texts));
  SLUICE_ASSIGN(const auto echo, fields.boolean("echo"));
  SLUICE_ASSIGN(const auto likeliest, fields.integer("logprobs", 0, kMostLikeliest));
  if (likeliest) request.generation.log_probabilities = static_cast<std::size_t>(*likeliest);
  if (echo.value_or(false)) {
    request.generation.prompt_log_probabilities = likeliest.has_value();
    request.echo = std::move(texts);
  }
  if (max_new == 0 && request.echo.empty()) {
    return refuse("max_tokens", "must be 1 or more, but for echo");
  }
  SLUICE_TRY(fields.only("suffix", {""}));
  SLUICE_TRY(fields.only("best_of", {request.generation.choices}));
  SLUICE_TRY(fields.finish());
  constexpr std::int64_t kUsualNew = 16;  // OpenAI's default for completions
  std::size_t longest = 0;
  for (const auto& prompt : request.generation.prompts) longest = std::max(longest, prompt.size());
  SLUICE_ASSIGN(request.generation.max_new,
                room_after(longest, max_new.value_or(kUsualNew), model, "prompt"));
  return request;
}

ApiResult<std::size_t> room_after(std::size_t prompt, std::optional<std::int64_t> wanted,
                                  const ServedModel& model, const std::string& field) {
  if (prompt >= model.context) {
    return tl::unexpected(
        ApiError{400,
                 fmt::format("{}: {} tokens, but the context is {} for prompt and answer together",
                             field, prompt, model.context),
                 "invalid_request_error", field, "context_length_exceeded"});
  }
  const std::size_t left = model.context - prompt;
  return wanted ? std::min(left, static_cast<std::size_t>(*wanted)) : left;
}

ApiStatus add_conversation(const text::ChatRequest& chat, std::optional<std::int64_t> max_new,
                           const ServedModel& model, Generation& generation) {
  generation.form.chat = model.format;
  generation.form.thinking = chat.thinking;
  auto ids = model.format->encode(*model.tokenizer, chat);
  if (!ids) return tl::unexpected(to_api_error(ids.error()));
  SLUICE_ASSIGN(generation.max_new, room_after(ids->size(), max_new, model, "messages"));
  generation.prompts.push_back(std::move(*ids));
  return {};
}

ApiStatus check_tools(const text::ChatRequest& chat, const ServedModel& model) {
  if (chat.tools.empty() || model.format->kind() == text::ChatFormat::Kind::kimi_k3) return {};
  return refuse("tools", "are not supported for this model");
}

ApiStatus check_model(Fields& fields, const ServedModel& model) {
  SLUICE_ASSIGN(const auto name, fields.text("model"));
  if (!name) return refuse("model", "is missing; this server has \"{}\"", model.name);
  if (*name == model.name) return {};
  return tl::unexpected(no_such_model(*name, model));
}

ApiError no_such_model(std::string_view name, const ServedModel& model) {
  return {404,
          fmt::format("model: there is no \"{}\" here; this server has \"{}\"", name.substr(0, 100),
                      model.name),
          "invalid_request_error", "model", "model_not_found"};
}

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace sluice::server
