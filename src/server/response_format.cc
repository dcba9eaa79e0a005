#include "server/response_format.h"

#include <utility>

#include "text/answer_grammar.h"

namespace sluice::server {
namespace {

/// Sets what the answer has to be. `format` is what the model is told, in OpenAI's words, if its
/// chat format has a way to say it. `where`: the field with the schema.
ApiStatus hold(const Json& schema, const Json& format, const std::string& where,
               const ServedModel& model, text::ChatRequest& chat, Generation& generation) {
  const std::string field = where.substr(0, where.find('.'));
  if (!generation.form.stops.empty()) {
    return refuse(field,
                  "is not supported together with texts to stop at, which would cut the JSON");
  }
  if (generation.form.tools) {
    return refuse(field, "is not supported together with tools");
  }
  auto answer = text::json_answer(*model.tokenizer, model.format, chat.thinking, schema, where);
  if (!answer) return tl::unexpected(to_api_error(answer.error()));
  const auto kept = model.grammars->keep(std::move(answer->grammar));
  if (!kept) {
    return tl::unexpected(ApiError{503,
                                   "the schemas of requests that wait take all the room that "
                                   "there is for them; try again later",
                                   "server_error", field, "out_of_memory"});
  }
  generation.grammar = {kept, std::move(answer->end_ids)};
  if (model.format->kind() == text::ChatFormat::Kind::kimi_k3) chat.response_format = format;
  return {};
}

/// A schema by its name, in OpenAI's wrapping.
ApiResult<const Json*> read_json_schema(const Json* named) {
  const std::string where = "response_format.json_schema";
  if (named == nullptr || !named->is_object()) return refuse(where, "must be an object");
  Fields fields(*named, where);
  SLUICE_ASSIGN(const auto name, fields.text("name"));
  if (!name || name->empty() || name->size() > 64) {
    return refuse(where + ".name", "must be 1 to 64 characters");
  }
  SLUICE_TRY(fields.text("description"));
  SLUICE_TRY(fields.boolean("strict"));  // it is strict either way
  const Json* const schema = fields.get("schema");
  if (schema == nullptr) return refuse(where + ".schema", "is missing");
  SLUICE_TRY(fields.finish());
  return schema;
}

}  // namespace

ApiStatus read_response_format(Fields& fields, const ServedModel& model, text::ChatRequest& chat,
                               Generation& generation) {
  const Json* const format = fields.get("response_format");
  if (format == nullptr) return {};
  if (!format->is_object()) return refuse("response_format", "must be an object");
  Fields inner(*format, "response_format");
  SLUICE_ASSIGN(const auto type, inner.text("type"));
  const Json* const named = inner.get("json_schema");
  SLUICE_TRY(inner.finish());
  if (type != "json_schema" && named != nullptr) {
    return refuse("response_format.json_schema", "needs the type json_schema");
  }
  if (type == "text") return {};
  if (type == "json_object") {
    return hold(Json{{"type", "object"}}, *format, "response_format", model, chat, generation);
  }
  if (type != "json_schema") {
    return refuse("response_format.type", "must be text, json_object or json_schema");
  }
  SLUICE_ASSIGN(const Json* schema, read_json_schema(named));
  return hold(*schema, *format, "response_format.json_schema.schema", model, chat, generation);
}

ApiStatus read_output_format(const Json& format, const ServedModel& model, text::ChatRequest& chat,
                             Generation& generation) {
  const std::string where = "output_config.format";
  if (!format.is_object()) return refuse(where, "must be an object");
  Fields fields(format, where);
  SLUICE_ASSIGN(const auto type, fields.text("type"));
  const Json* const schema = fields.get("schema");
  SLUICE_TRY(fields.finish());
  if (type != "json_schema") return refuse(where + ".type", "must be json_schema");
  if (schema == nullptr) return refuse(where + ".schema", "is missing");
  const Json told = {{"type", "json_schema"}, {"json_schema", {{"schema", *schema}}}};
  return hold(*schema, told, where + ".schema", model, chat, generation);
}

}  // namespace sluice::server
