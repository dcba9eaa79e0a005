#include "server/response_format.h"

#include <utility>

namespace sluice::server {
namespace {

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

ApiResult<std::optional<WantedJson>> read_response_format(Fields& fields) {
  const Json* const format = fields.get("response_format");
  if (format == nullptr) return std::nullopt;
  if (!format->is_object()) return refuse("response_format", "must be an object");
  Fields inner(*format, "response_format");
  SLUICE_ASSIGN(const auto type, inner.text("type"));
  const Json* const named = inner.get("json_schema");
  SLUICE_TRY(inner.finish());
  if (type != "json_schema" && named != nullptr) {
    return refuse("response_format.json_schema", "needs the type json_schema");
  }
  if (type == "text") return std::nullopt;
  if (type == "json_object") {
    return WantedJson{Json{{"type", "object"}}, "response_format", *format};
  }
  if (type != "json_schema") {
    return refuse("response_format.type", "must be text, json_object or json_schema");
  }
  SLUICE_ASSIGN(const Json* schema, read_json_schema(named));
  return WantedJson{*schema, "response_format.json_schema.schema", *format};
}

ApiResult<WantedJson> read_output_format(const Json& format) {
  const std::string where = "output_config.format";
  if (!format.is_object()) return refuse(where, "must be an object");
  Fields fields(format, where);
  SLUICE_ASSIGN(const auto type, fields.text("type"));
  const Json* const schema = fields.get("schema");
  SLUICE_TRY(fields.finish());
  if (type != "json_schema") return refuse(where + ".type", "must be json_schema");
  if (schema == nullptr) return refuse(where + ".schema", "is missing");
  const Json told = {{"type", "json_schema"}, {"json_schema", {{"schema", *schema}}}};
  return WantedJson{*schema, where + ".schema", told};
}

}  // namespace sluice::server
