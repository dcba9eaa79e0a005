#include "server/http_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace sluice::server {
namespace {

using Fault = tl::unexpected<HttpFault>;

Fault refuse(int status, std::string message) {
  return Fault(HttpFault{status, std::move(message)});
}

/// RFC 9110, 5.6.2.
bool is_token_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_character);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

tl::expected<HttpRequest, HttpFault> parse_request_line(std::string_view line) {
  HttpRequest request;
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return refuse(400, "no request line");
  request.method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(request.method) || request.method.size() > 16) return refuse(400, "no method");
  if (target.size() > kMostTargetBytes) return refuse(414, "the path is too long");
  if (!target.starts_with('/')) return refuse(400, "the path must start with /");
  for (const char c : target) {
    if (c <= ' ' || c > '~') return refuse(400, "the path has a character that no path has");
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return refuse(505, "HTTP/1.1 is spoken here");
  request.is_http10 = version == "HTTP/1.0";
  const std::size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != std::string_view::npos) request.query = target.substr(mark + 1);
  return request;
}

tl::expected<std::pair<std::string, std::string>, HttpFault> parse_header(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    return refuse(400, "a header is malformed");
  }
  const std::string_view value = trimmed(line.substr(colon + 1));
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && byte != '\t') || byte == 0x7f) {
      return refuse(400, "a header has a control character");
    }
  }
  return std::pair(lower_case(line.substr(0, colon)), std::string(value));
}

bool has_word(const std::string* list, std::string_view word) {
  if (list == nullptr) return false;
  const std::string lower = lower_case(*list);
  for (std::string_view rest = lower;;) {
    const std::size_t comma = rest.find(',');
    if (trimmed(rest.substr(0, comma)) == word) return true;
    if (comma == std::string_view::npos) return false;
    rest.remove_prefix(comma + 1);
  }
}

/// How long the body is, and whether the connection goes on after it.
tl::expected<void, HttpFault> read_framing(HttpRequest& request) {
  std::size_t lengths = 0;
  std::size_t hosts = 0;
  for (const auto& [name, value] : request.headers) {
    if (name == "host") ++hosts;
    if (name != "content-length") continue;
    ++lengths;
    const char* const end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, request.content_length);
    if (value.empty() || value[0] == '-' || error != std::errc() || rest != end) {
      return refuse(400, "Content-Length is not a number");
    }
  }
  if (lengths > 1) return refuse(400, "Content-Length is there twice");
  if (hosts > 1 || (hosts == 0 && !request.is_http10)) return refuse(400, "one Host is needed");
  if (request.header("transfer-encoding") != nullptr) {
    return refuse(411, "send the body with a Content-Length, not with a Transfer-Encoding");
  }
  const std::string* const coding = request.header("content-encoding");
  if (coding != nullptr && lower_case(*coding) != "identity") {
    return refuse(415, "send the body as it is, without a Content-Encoding");
  }
  const std::string* const connection = request.header("connection");
  request.keep_alive =
      request.is_http10 ? has_word(connection, "keep-alive") : !has_word(connection, "close");
  return {};
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

const std::string* HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return &value;
  }
  return nullptr;
}

tl::expected<HttpRequest, HttpFault> parse_http_head(std::string_view head) {
  std::size_t end = head.find("\r\n");
  if (end == std::string_view::npos) return refuse(400, "no request line");
  auto request = parse_request_line(head.substr(0, end));
  if (!request) return request;
  for (head.remove_prefix(end + 2); !head.empty() && head != "\r\n"; head.remove_prefix(end + 2)) {
    end = head.find("\r\n");
    if (end == std::string_view::npos) return refuse(400, "a line has no end");
    auto header = parse_header(head.substr(0, end));
    if (!header) return tl::unexpected(std::move(header).error());
    if (request->headers.size() == kMostHeaders) return refuse(431, "too many headers");
    request->headers.push_back(std::move(*header));
  }
  if (auto framing = read_framing(*request); !framing) {
    return tl::unexpected(std::move(framing).error());
  }
  return request;
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const std::size_t equals = pair.find('=');
    if (pair.substr(0, equals) != name) continue;
    return std::string(equals == std::string_view::npos ? "" : pair.substr(equals + 1));
  }
  return std::nullopt;
}

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 202:
      return "Accepted";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 421:
      return "Misdirected Request";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Error";
  }
}

std::string response_head(int status, const Headers& headers, bool keep_alive,
                          std::optional<std::size_t> content_length) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, reason_of(status));
  for (const auto& [name, value] : headers) head += fmt::format("{}: {}\r\n", name, value);
  if (content_length) head += fmt::format("Content-Length: {}\r\n", *content_length);
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

}  // namespace sluice::server
