#include "server/request_parts.h"

#include <algorithm>
#include <random>
#include <set>
#include <string_view>
#include <utility>

#include "base/size.h"

namespace sluice::server {

ApiResult<std::uint32_t> read_model(Fields& fields, const ServedModel& model) {
  SLUICE_ASSIGN(const auto name, fields.text("model"));
  if (!name) return refuse("model", "is missing; this server has \"{}\"", model.name);
  if (const auto adapter = model.find(*name)) return *adapter;
  return tl::unexpected(no_such_model(*name, model));
}

ApiError no_such_model(std::string_view name, const ServedModel& model) {
  std::string all = fmt::format("\"{}\"", model.name);
  for (const std::string& adapter : model.adapters) all += fmt::format(", \"{}\"", adapter);
  return {
      404,
      fmt::format("model: there is no \"{}\" here; this server has {}", name.substr(0, 100), all),
      "invalid_request_error", "model", "model_not_found"};
}

ApiError no_chat(const ServedModel& model) {
  return {400, fmt::format("this model has no chat: {}", model.no_chat)};
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

namespace {

/// Tokens of the prompts that answers give back.
std::size_t given_tokens(const Generation& generation, const AnswerShape& shape) {
  const bool gives = generation.prompt_log_probabilities || (shape.echo && !shape.stream);
  std::size_t given = 0;
  for (const auto& prompt : generation.prompts) given += gives ? prompt.size() : 0;
  return given;
}

tl::unexpected<ApiError> no_answer_room(const Generation& generation, const AnswerShape& shape,
                                        std::size_t tokens, std::uint64_t each,
                                        const ServedModel& model) {
  const char* const or_stream = shape.stream ? "" : ", or for a stream";
  const std::string bytes = format_size(tokens * each);
  const std::string room = format_size(model.told_bytes);
  if (generation.log_probabilities) {
    return refuse(shape.field,
                  "of up to {} tokens would take {}, and there is room for {}; ask for less of "
                  "each token, for fewer tokens or choices{}",
                  tokens, bytes, room, or_stream);
  }
  return refuse(generation.choices > 1 ? "n" : "max_tokens",
                "answers of up to {} tokens together would take {}, and there is room for {}; ask "
                "for fewer tokens, choices or prompts{}",
                tokens, bytes, room, or_stream);
}

}  // namespace

ApiStatus check_answer_room(Generation& generation, const AnswerShape& shape,
                            const ServedModel& model) {
  const std::size_t prompts = generation.prompts.size();
  const std::size_t given = given_tokens(generation, shape);
  const std::size_t written = shape.stream ? 0 : prompts * generation.max_new;
  const std::uint64_t each =
      generation.log_probabilities ? told_bytes(*generation.log_probabilities) : kAnswerTokenBytes;
  const std::uint64_t fitting = model.told_bytes / (each * generation.choices);
  if (given + written <= fitting) return {};
  if (!shape.stream && !shape.wanted && fitting >= given + prompts) {
    generation.max_new = static_cast<std::size_t>((fitting - given) / prompts);
    return {};
  }
  return no_answer_room(generation, shape, (given + written) * generation.choices, each, model);
}

ApiStatus add_conversation(const text::ChatRequest& chat, std::optional<std::int64_t> max_new,
                           const ServedModel& model, Generation& generation) {
  generation.form.chat = model.format;
  auto ids = model.format->encode(*model.tokenizer, chat);
  if (!ids) return tl::unexpected(to_api_error(ids.error()));
  // Not what was asked for: some templates open the reasoning whatever the request says.
  generation.form.thinking = model.format->opens_reasoning(*model.tokenizer, *ids);
  SLUICE_ASSIGN(generation.max_new, room_after(ids->size(), max_new, model, "messages"));
  generation.prompts.push_back(std::move(*ids));
  return {};
}

ApiStatus check_tool_names(const Json& tools) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const auto& name = tools[i]["function"]["name"].get_ref<const std::string&>();
    if (!names.insert(name).second) {
      return refuse(fmt::format("tools[{}]", i), "another tool has the name \"{}\"", name);
    }
  }
  return {};
}

ApiStatus check_tools(const text::ChatRequest& chat, const ServedModel& model) {
  using Kind = text::ChatFormat::Kind;
  if (chat.tools.empty() || model.format->kind() == Kind::kimi_k3) return {};
  if (model.format->kind() != Kind::harmony) {
    return refuse("tools", "are not supported for this model");
  }
  if (chat.tool_choice == "required") {
    return refuse("tool_choice", "may only be auto or none for this model");
  }
  for (const Json& tool : chat.tools) {
    if (tool["function"].value("strict", Json()) == true) {
      return refuse("tools", "may not be strict for this model");
    }
  }
  return {};
}

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace sluice::server
