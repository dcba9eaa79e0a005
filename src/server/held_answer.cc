#include "server/held_answer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/size.h"
#include "text/answer_grammar.h"

namespace sluice::server {
namespace {

/// JSON that could not come to its end, or never would be asked for.
ApiStatus check_json(const WantedJson& json, bool must_call, const Generation& generation) {
  const std::string field = json.where.substr(0, json.where.find('.'));
  if (!generation.form.stops.empty()) {
    return refuse(field,
                  "is not supported together with texts to stop at, which would cut the JSON");
  }
  if (must_call) {
    return refuse(field, "is not supported together with a tool_choice that requires a call");
  }
  return {};
}

bool has_strict_tool(const Json& tools) {
  return std::any_of(tools.begin(), tools.end(), [](const Json& tool) {
    return tool["function"].value("strict", Json()) == true;
  });
}

/// The grammar takes its room among those of the other requests that wait.
ApiStatus keep(Result<text::AnswerGrammar> answer, const std::string& field,
               const ServedModel& model, Generation& generation) {
  if (!answer) return tl::unexpected(to_api_error(answer.error()));
  const std::uint64_t bytes = answer->grammar->memory_bytes();
  if (bytes > model.grammars->bytes()) {
    return refuse(field, "is too large: it takes {} in memory, and may take {}", format_size(bytes),
                  format_size(model.grammars->bytes()));
  }
  const auto kept = model.grammars->keep(std::move(answer->grammar));
  if (!kept) {
    return tl::unexpected(ApiError{503,
                                   "the schemas of requests that wait take all the room that "
                                   "there is for them; try again later",
                                   "server_error", field, kNoGrammarRoom});
  }
  generation.grammar = {kept, std::move(answer->end_ids)};
  return {};
}

text::Thought thought_of(const text::ChatRequest& chat, const Generation& generation) {
  if (generation.form.thinking) return text::Thought::begun;
  return chat.thinking ? text::Thought::allowed : text::Thought::none;
}

}  // namespace

void tell_of_json(const std::optional<WantedJson>& json, const ServedModel& model,
                  text::ChatRequest& chat) {
  if (json && model.format->kind() == text::ChatFormat::Kind::kimi_k3) {
    chat.response_format = json->told;
  }
}

ApiStatus hold_answer(const std::optional<WantedJson>& json, const std::string& schema_field,
                      const ServedModel& model, const text::ChatRequest& chat,
                      Generation& generation) {
  const bool may_call = generation.form.tools;
  const bool must_call = may_call && chat.tool_choice == "required";
  if (json) SLUICE_TRY(check_json(*json, must_call, generation));
  if (!json && !must_call && !(may_call && has_strict_tool(chat.tools))) return {};
  const std::string field = json ? json->where.substr(0, json->where.find('.')) : "tools";
  if (!may_call) {
    return keep(text::json_answer(*model.tokenizer, model.format, thought_of(chat, generation),
                                  json->schema, json->where),
                field, model, generation);
  }
  if (model.format->kind() != text::ChatFormat::Kind::kimi_k3) {
    return refuse(field, "is not supported together with tools for this model");
  }
  text::CallingAnswer asked = {&chat.tools, schema_field, must_call};
  if (json) {
    asked.schema = &json->schema;
    asked.where = json->where;
  }
  return keep(text::calling_answer(*model.tokenizer, generation.form.thinking, asked), field, model,
              generation);
}

}  // namespace sluice::server
