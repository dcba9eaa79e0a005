#include "server/exchange.h"

#include <optional>
#include <utility>

#include "base/log.h"
#include "server/answer_writer.h"
#include "server/asked.h"

namespace sluice::server {
namespace {

Headers headers(std::string_view type, Headers more) {
  Headers all = {{"Content-Type", std::string(type)},
                 {"Cache-Control", "no-store"},
                 {"X-Content-Type-Options", "nosniff"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

void Exchange::send(int status, std::string_view type, std::string_view body, Headers more) {
  metrics_.count_request(route_, status);
  connection_.respond(request_, status, headers(type, std::move(more)), body);
}

void Exchange::send_content(StoredContent& content, std::string_view type) {
  metrics_.count_request(route_, 200);
  const auto next = [&]() -> std::optional<std::string> {
    auto piece = content.next();
    if (piece) return std::move(*piece);
    log_warning("a file ends early for its client: {}", piece.error().message);
    return std::nullopt;
  };
  connection_.respond_in_pieces(request_, 200, headers(type, {}), content.bytes(), next);
}

void Exchange::send_json(const text::Json& json) { send(200, kJsonType, to_line(json)); }

void Exchange::send_error(const ApiError& error) {
  const std::string_view path = request_.path;
  const bool anthropic = path.starts_with(kMessagesPath) &&
                         (path.size() == kMessagesPath.size() || path[kMessagesPath.size()] == '/');
  send(error.status, kJsonType, anthropic ? anthropic_error(error) : openai_error(error),
       error.headers);
}

void Exchange::begin_stream() {
  metrics_.count_request(route_, 200);
  connection_.begin_stream(request_, 200, headers("text/event-stream", {}));
}

}  // namespace sluice::server
