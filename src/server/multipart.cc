#include "server/multipart.h"

#include <algorithm>

#include "server/http_message.h"

namespace sluice::server {
namespace {

constexpr std::size_t kMostParts = 16;
constexpr std::size_t kMostHeadBytes = 4096;

/// The value of `key` in: form-data; name="a"; filename="b"
std::string parameter(std::string_view header, std::string_view key) {
  for (std::size_t at = 0; (at = header.find(';', at)) != std::string_view::npos;) {
    at = header.find_first_not_of("; \t", at);
    if (at == std::string_view::npos) break;
    const std::string_view rest = header.substr(at);
    if (!rest.starts_with(key) || rest.size() <= key.size() || rest[key.size()] != '=') continue;
    std::string_view value = rest.substr(key.size() + 1);
    if (value.starts_with('"')) return std::string(value.substr(1, value.find('"', 1) - 1));
    return std::string(value.substr(0, value.find_first_of("; \t")));
  }
  return {};
}

std::optional<FormPart> parse_part(std::string_view part) {
  const std::size_t end = part.substr(0, kMostHeadBytes).find("\r\n\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  FormPart result;
  result.content = part.substr(end + 4);
  std::string_view head = part.substr(0, end);
  while (!head.empty()) {
    const std::string_view line = head.substr(0, head.find("\r\n"));
    head.remove_prefix(std::min(line.size() + 2, head.size()));
    if (!lower_case(line).starts_with("content-disposition:")) continue;
    result.name = parameter(line, "name");
    result.file_name = parameter(line, "filename");
  }
  if (result.name.empty()) return std::nullopt;
  return result;
}

}  // namespace

std::optional<std::vector<FormPart>> parse_multipart(std::string_view content_type,
                                                     std::string_view body) {
  if (!lower_case(content_type).starts_with("multipart/form-data")) return std::nullopt;
  const std::string boundary = parameter(content_type, "boundary");
  if (boundary.empty() || boundary.size() > 70) return std::nullopt;
  const std::string first = "--" + boundary;
  const std::string next = "\r\n" + first;
  if (!body.starts_with(first)) return std::nullopt;
  body.remove_prefix(first.size());
  std::vector<FormPart> parts;
  while (body.starts_with("\r\n") && parts.size() < kMostParts) {
    body.remove_prefix(2);
    const std::size_t end = body.find(next);
    if (end == std::string_view::npos) return std::nullopt;
    auto part = parse_part(body.substr(0, end));
    if (!part) return std::nullopt;
    parts.push_back(std::move(*part));
    body.remove_prefix(end + next.size());
  }
  if (!body.starts_with("--")) return std::nullopt;
  return parts;
}

}  // namespace sluice::server
