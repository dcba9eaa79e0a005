#include "server/batch_lines.h"

#include "server/answer_writer.h"
#include "server/asked.h"
#include "server/fields.h"

namespace sluice::server {

ApiResult<BatchLine> read_batch_line(std::string_view line, const std::string& where,
                                     std::size_t most_values) {
  const auto json = parse_body(line, most_values);
  if (!json) return refuse(where, "{}", json.error().message);
  Fields fields(*json, where);
  SLUICE_ASSIGN(const auto name, fields.text("custom_id"));
  SLUICE_ASSIGN(const auto method, fields.text("method"));
  SLUICE_ASSIGN(const auto url, fields.text("url"));
  const Json* const body = fields.get("body");
  SLUICE_TRY(fields.finish());
  if (!name || name->empty()) return refuse(where + ".custom_id", "is missing");
  if (method != "POST") return refuse(where + ".method", "must be POST");
  if (url != kChatPath && url != kCompletionsPath) {
    return refuse(where + ".url", "must be {} or {}", kChatPath, kCompletionsPath);
  }
  if (body == nullptr || !body->is_object()) return refuse(where + ".body", "must be an object");
  if (body->value("stream", Json()) == true) {
    return refuse(where + ".body.stream", "a request of a batch has no stream");
  }
  return BatchLine{*name, *url, *body};
}

std::string result_id(const std::string& id) { return "batch_req_" + id; }

std::string batch_result(const std::string& id, const std::string& custom_id, int status,
                         const std::string& body) {
  text::Json start = {{"id", result_id(id)}, {"custom_id", custom_id}};
  start["response"] = {{"status_code", status}, {"request_id", id}};
  std::string line = to_line(start);
  line.resize(line.size() - 2);  // the body goes into "response", as it is
  line.append(",\"body\":").append(body).append("},\"error\":null}\n");
  return line;
}

}  // namespace sluice::server
