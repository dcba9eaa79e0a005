// Hostile requests: heads, bodies and forms are understood or refused, never a crash.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/batch_lines.h"
#include "server/fields.h"
#include "server/http_message.h"
#include "server/multipart.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::server;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find("\r\n\r\n");
  const std::string_view head = text.substr(0, end == std::string_view::npos ? size : end + 4);
  const std::string_view body = text.substr(head.size());
  const auto request = parse_http_head(head);
  if (request) {
    // What the guard and the routes rely on.
    if (!request->path.starts_with('/') || request->method.empty()) std::abort();
    if (request->headers.size() > kMostHeaders) std::abort();
    const std::string* const type = request->header("content-type");
    const auto parts =
        parse_multipart(type == nullptr ? "multipart/form-data; boundary=b" : *type, body);
    for (std::size_t i = 0; parts && i < parts->size(); ++i) {
      if ((*parts)[i].content.size() > body.size()) std::abort();
    }
  }
  const auto json = parse_body(body, 1000);
  if (json && !json->is_object()) std::abort();
  static_cast<void>(read_batch_line(body, "line", 1000));
  return 0;
}
