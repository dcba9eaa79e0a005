// Requests of OpenAI's completions.
#include <algorithm>
#include <optional>
#include <utility>

#include "server/openai_common.h"
#include "server/request_parts.h"

namespace sluice::server {
namespace {

constexpr std::size_t kMostPrompts = 128;

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
    std::size_t prefix = 0;
    if (one.is_string()) {
      const auto& text = one.get_ref<const std::string&>();
      auto encoded = model.tokenizer->encode_prompt(text);
      if (!encoded) return refuse("prompt", "{}", encoded.error().message);
      ids = std::move(*encoded);
      prefix = model.tokenizer->prefix().size();
      texts.push_back(text);
    } else {
      if (!one.is_array()) return refuse("prompt", "must be text or token ids");
      SLUICE_ASSIGN(ids, read_ids(one, model));
      texts.push_back(model.tokenizer->decode(ids));
    }
    if (ids.size() == prefix || (one.is_string() && texts.back().empty())) {
      return refuse("prompt", "is empty; a model can only continue something");
    }
    request.generation.prompts.push_back(std::move(ids));
    request.generation.prefixes.push_back(prefix);
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
  SLUICE_TRY(check_answer_room(
      request.generation, {request.stream, max_new.has_value(), !request.echo.empty(), "logprobs"},
      model));
  return request;
}

}  // namespace sluice::server
