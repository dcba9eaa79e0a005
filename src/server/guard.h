// Who may ask: keys, and web pages that reach for a server which is not theirs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/api_error.h"
#include "server/http_message.h"

namespace sluice::server {

struct GuardOptions {
  std::string host = "127.0.0.1";          ///< where the server listens
  std::vector<std::string> keys;           ///< none: nobody needs one
  std::vector<std::string> allowed_hosts;  ///< names that a Host may have, beside addresses
};

/// The keys in a file: one a line, of at least 16 printable characters; # begins a comment.
/// Fails with ErrorKind::usage.
Result<std::vector<std::string>> read_keys(const std::filesystem::path& file);

class Guard {
 public:
  explicit Guard(GuardOptions options) : options_(std::move(options)) {}

  /// Against web pages: a Host that is a foreign name (DNS rebinding), an Origin that is not the
  /// server's own. Applies to every request.
  ApiStatus check_browser(const HttpRequest& request) const;

  /// The number of the key that the request brings (Authorization: Bearer, or X-API-Key); 0 where
  /// none is needed.
  ApiResult<std::size_t> check_key(const HttpRequest& request) const;

 private:
  bool is_own_name(std::string_view host) const;

  GuardOptions options_;
};

/// Takes as long for a wrong text as for a right one: nothing can be learned about `secret` but
/// its length.
bool equal_in_constant_time(std::string_view secret, std::string_view given);

}  // namespace sluice::server
