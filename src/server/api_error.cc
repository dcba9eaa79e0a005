#include "server/api_error.h"

#include "text/json.h"

namespace sluice::server {
namespace {

text::Json or_null(const std::string& text) {
  return text.empty() ? text::Json() : text::Json(text);
}

std::string dump(const text::Json& json) {
  return json.dump(-1, ' ', false, text::Json::error_handler_t::replace);
}

std::string anthropic_type(const ApiError& error) {
  switch (error.status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return error.status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

ApiError to_api_error(const Error& error) {
  ApiError api;
  api.message = error.message;
  switch (error.kind) {
    case ErrorKind::usage: {
      const std::size_t colon = error.message.find(": ");
      if (colon != std::string::npos && error.message.find(' ') == colon + 1) {
        api.param = error.message.substr(0, colon);
      }
      return api;
    }
    case ErrorKind::memory:
      api.status = 503;
      api.code = "out_of_memory";
      break;
    case ErrorKind::interrupted:
      api.status = 503;
      api.code = "shutting_down";
      api.message = "the server is shutting down";
      break;
    case ErrorKind::drive:
      api.status = 500;
      api.code = "drive_failed";
      break;
    case ErrorKind::number:
      api.status = 500;
      api.code = "bad_number";
      break;
    case ErrorKind::model_files:
      api.status = 500;
      api.code = "model_files";
      break;
  }
  api.type = "server_error";
  return api;
}

std::string openai_error(const ApiError& error) {
  text::Json json;
  json["error"] = {{"message", error.message},
                   {"type", error.type},
                   {"param", or_null(error.param)},
                   {"code", or_null(error.code)}};
  return dump(json);
}

std::string anthropic_error(const ApiError& error) {
  const text::Json json = {
      {"type", "error"}, {"error", {{"type", anthropic_type(error)}, {"message", error.message}}}};
  return dump(json);
}

}  // namespace sluice::server
