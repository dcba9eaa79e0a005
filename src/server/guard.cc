#include "server/guard.h"

#include <arpa/inet.h>

#include <algorithm>
#include <fstream>

namespace sluice::server {
namespace {

constexpr std::size_t kShortestKey = 16;
constexpr std::size_t kMostKeys = 1024;

tl::unexpected<ApiError> forbid(int status, std::string message) {
  return tl::unexpected(ApiError{status, std::move(message), "invalid_request_error"});
}

/// Without the port.
std::string_view host_of(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(0, authority.find(']') + 1);
  return authority.substr(0, authority.rfind(':'));
}

bool is_address(std::string_view host) {
  unsigned char bytes[sizeof(in6_addr)];
  if (host.starts_with('[') && host.ends_with(']')) {
    return inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), bytes) == 1;
  }
  return inet_pton(AF_INET, std::string(host).c_str(), bytes) == 1;
}

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char left, char right) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : int{c}; };
    return lower(left) == lower(right);
  });
}

}  // namespace

Result<std::vector<std::string>> read_keys(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    return fail(ErrorKind::usage,
                "--api-key-file: {}: is a folder; expected a file with one key a line",
                file.string());
  }
  std::ifstream in(file);
  if (!in) return fail(ErrorKind::usage, "--api-key-file: {}: cannot be read", file.string());
  std::vector<std::string> keys;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty() || line.starts_with('#')) continue;
    const bool printable =
        std::all_of(line.begin(), line.end(), [](char c) { return c > ' ' && c <= '~'; });
    if (!printable || line.size() < kShortestKey) {
      return fail(ErrorKind::usage,
                  "--api-key-file: {}: line {}: a key has at least {} characters, all printable, "
                  "and no blanks",
                  file.string(), number, kShortestKey);
    }
    keys.push_back(line);
    if (keys.size() > kMostKeys) {
      return fail(ErrorKind::usage, "--api-key-file: {}: more than {} keys", file.string(),
                  kMostKeys);
    }
  }
  if (keys.empty()) {
    return fail(ErrorKind::usage, "--api-key-file: {}: there is no key in it", file.string());
  }
  return keys;
}

bool equal_in_constant_time(std::string_view secret, std::string_view given) {
  unsigned different = secret.size() == given.size() ? 0 : 1;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    const char other = i < given.size() ? given[i] : '\0';
    different |= static_cast<unsigned>(static_cast<unsigned char>(secret[i] ^ other));
  }
  return different == 0;
}

bool Guard::is_own_name(std::string_view host) const {
  // A page cannot be served from an address that it did not reach, so numbers are safe.
  if (is_address(host) || same_name(host, "localhost")) return true;
  return std::any_of(options_.allowed_hosts.begin(), options_.allowed_hosts.end(),
                     [&](const std::string& name) { return same_name(name, host); });
}

ApiStatus Guard::check_browser(const HttpRequest& request) const {
  const std::string* const authority = request.header("host");
  // Behind a key a foreign name does no harm: a page that uses it knows no key.
  if (authority != nullptr && options_.keys.empty() && !is_own_name(host_of(*authority))) {
    return forbid(421, "the Host header names another server; --allow-host NAME permits it");
  }
  if (const std::string* const site = request.header("sec-fetch-site");
      site != nullptr && (*site == "cross-site" || *site == "same-site")) {
    return forbid(403, "web pages of other sites may not use this server");
  }
  const std::string* const origin = request.header("origin");
  if (origin == nullptr) return {};
  const std::size_t scheme = origin->find("://");
  if (scheme == std::string::npos || authority == nullptr ||
      !same_name(std::string_view(*origin).substr(scheme + 3), *authority)) {
    return forbid(403, "web pages of other origins may not use this server");
  }
  return {};
}

ApiResult<std::size_t> Guard::check_key(const HttpRequest& request) const {
  if (options_.keys.empty()) return std::size_t{0};
  std::string_view given;
  if (const std::string* const header = request.header("authorization"); header != nullptr) {
    constexpr std::string_view kBearer = "bearer ";
    if (same_name(std::string_view(*header).substr(0, kBearer.size()), kBearer)) {
      given = std::string_view(*header).substr(kBearer.size());
    }
  } else if (const std::string* const key = request.header("x-api-key"); key != nullptr) {
    given = *key;
  }
  std::size_t found = options_.keys.size();
  for (std::size_t i = 0; i < options_.keys.size(); ++i) {
    if (equal_in_constant_time(options_.keys[i], given)) found = i;
  }
  if (found < options_.keys.size()) return found;
  ApiError error = {401,
                    given.empty() ? "an API key is needed: Authorization: Bearer KEY"
                                  : "the API key is not known here",
                    "authentication_error",
                    {},
                    "invalid_api_key"};
  error.headers.emplace_back("WWW-Authenticate", "Bearer");
  return tl::unexpected(std::move(error));
}

}  // namespace sluice::server
