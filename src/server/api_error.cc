#include "server/api_error.h"

#include "server/answer_writer.h"
#include "text/json.h"

namespace sluice::server {
namespace {

text::Json or_null(const std::string& text) {
  return text.empty() ? text::Json() : text::Json(text);
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
  const auto of_server = [&](int status, const char* code) {
    return ApiError{status, error.message, "server_error", {}, code};
  };
  switch (error.kind) {
    case ErrorKind::usage:
      break;
    case ErrorKind::memory:
      return of_server(503, "out_of_memory");
    case ErrorKind::interrupted:
      return ApiError{503, "the server is shutting down", "server_error", {}, "shutting_down"};
    case ErrorKind::drive:
      return of_server(500, "drive_failed");
    case ErrorKind::number:
      return of_server(500, "bad_number");
    case ErrorKind::model_files:
      return of_server(500, "model_files");
  }
  ApiError api;
  api.message = error.message;
  const std::size_t colon = error.message.find(": ");
  if (colon != std::string::npos && error.message.find(' ') == colon + 1) {
    api.param = error.message.substr(0, colon);
  }
  return api;
}

std::string openai_error(const ApiError& error) {
  text::Json json;
  json["error"] = {{"message", error.message},
                   {"type", error.type},
                   {"param", or_null(error.param)},
                   {"code", or_null(error.code)}};
  return to_line(json);
}

std::string anthropic_error(const ApiError& error) {
  // There is no code in this form: clients that shorten a conversation look for these words.
  const bool too_long = error.code == "context_length_exceeded";
  const std::string message = (too_long ? "prompt is too long: " : "") + error.message;
  const text::Json json = {{"type", "error"},
                           {"error", {{"type", anthropic_type(error)}, {"message", message}}}};
  return to_line(json);
}

}  // namespace sluice::server
