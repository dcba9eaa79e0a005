// One request and its one response.
#pragma once

#include <string>
#include <string_view>

#include "server/api_error.h"
#include "server/http_connection.h"
#include "server/job_store.h"
#include "server/metrics.h"
#include "text/json.h"

namespace sluice::server {

inline constexpr const char* kJsonType = "application/json";

/// Counted in the metrics once it is answered.
class Exchange {
 public:
  Exchange(HttpRequest& request, HttpConnection& connection, Metrics& metrics)
      : request_(request), connection_(connection), metrics_(metrics) {}

  HttpRequest& request() { return request_; }
  HttpConnection& connection() { return connection_; }
  bool is(std::string_view path) const { return request_.path == path; }
  /// For the metrics: only paths that exist, so that clients cannot invent any.
  void set_route(const char* route) { route_ = route; }
  void set_client(std::string client) { client_ = std::move(client); }
  const std::string& client() const { return client_; }

  void send(int status, std::string_view type, std::string_view body, Headers more = {});
  /// In pieces; the connection ends early if one of them cannot be had.
  void send_content(StoredContent& content, std::string_view type);
  void send_json(const text::Json& json);
  /// In the words of the API that was asked.
  void send_error(const ApiError& error);
  void begin_stream();

 private:
  HttpRequest& request_;
  HttpConnection& connection_;
  Metrics& metrics_;
  const char* route_ = "other";
  std::string client_;
};

}  // namespace sluice::server
