// Errors as the API's clients see them.
#pragma once

#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "base/result.h"
#include "server/http_message.h"

namespace sluice::server {

/// An error object of OpenAI's shape, with its status.
struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param = {};  ///< the field that is at fault; empty: none
  std::string code = {};   ///< empty: none
  Headers headers = {};    ///< Retry-After, ...
};

template <class T>
using ApiResult = tl::expected<T, ApiError>;
using ApiStatus = ApiResult<void>;

/// 400, about a field of the request.
template <class... Args>
tl::unexpected<ApiError> refuse(std::string param, fmt::format_string<Args...> format,
                                Args&&... args) {
  return tl::unexpected(ApiError{400,
                                 param + ": " + fmt::format(format, std::forward<Args>(args)...),
                                 "invalid_request_error", param});
}

/// An error of the layers below: what its kind means to a client. Messages of ErrorKind::usage
/// begin with the field ("messages[0].content: ...").
ApiError to_api_error(const Error& error);

/// {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}
std::string openai_error(const ApiError& error);

/// {"type": "error", "error": {"type": ..., "message": ...}}
std::string anthropic_error(const ApiError& error);

}  // namespace sluice::server
