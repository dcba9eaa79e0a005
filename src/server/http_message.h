// HTTP/1.1 as text: the head of a request taken apart, the head of a response put together
// (RFC 9112, strictly: what servers and proxies could understand in two ways is refused).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace sluice::server {

inline constexpr std::size_t kMostHeadBytes = std::size_t{16} << 10;
inline constexpr std::size_t kMostTargetBytes = 2048;
inline constexpr std::size_t kMostHeaders = 100;

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  ///< "POST"
  std::string path;    ///< as sent: nothing is percent-decoded here, no path reaches a file system
  std::string query;   ///< what follows '?'
  Headers headers;     ///< names in lower case, values without blanks around them
  std::string body;
  std::string peer;  ///< the client's address, without its port
  bool is_http10 = false;
  bool keep_alive = true;
  std::size_t content_length = 0;

  /// The value of a header by its name in lower case; nullptr if there is none.
  const std::string* header(std::string_view name) const;
};

/// A request that gets no other answer than this.
struct HttpFault {
  int status = 400;
  std::string message;
};

/// Only A to Z change.
std::string lower_case(std::string_view text);

/// Takes a head apart: everything up to and with the empty line.
tl::expected<HttpRequest, HttpFault> parse_http_head(std::string_view head);

/// The value of `name` in a query of the form a=1&b=2, undecoded.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

std::string_view reason_of(int status);

/// The head of a response. The length is told if `content_length` has a value.
std::string response_head(int status, const Headers& headers, bool keep_alive,
                          std::optional<std::size_t> content_length);

}  // namespace sluice::server
