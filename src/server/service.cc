#include "server/service.h"

#include <charconv>
#include <chrono>
#include <thread>
#include <utility>

#include "server/asked.h"
#include "server/openapi.h"
#include "server/page.h"
#include "server/request_parts.h"
#include "store/checksum.h"

namespace sluice::server {
namespace {

using std::chrono::milliseconds;

// How long a wait for the engine may be before the client is looked after.
constexpr milliseconds kPatience{50};
// Between two writes to a stream: of a model so fast that several tokens come meanwhile, waking up
// and sending for each would take from the engine what is a part of its speed.
constexpr milliseconds kRest{10};
constexpr auto kHeartbeat = std::chrono::seconds(5);

constexpr const char* kJson = "application/json";

/// Of a request that is answered in the same way whenever it comes.
std::uint64_t hash_of(std::string_view path, std::string_view body) {
  store::Checksum checksum;
  for (const std::string_view part : {path, body}) {
    checksum.add(std::as_bytes(std::span(part.data(), part.size())));
  }
  return checksum.take();
}

}  // namespace

/// One request and its one response.
class Service::Exchange {
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

  void send(int status, std::string_view type, std::string_view body, Headers more = {}) {
    metrics_.count_request(route_, status);
    connection_.respond(request_, status, headers(type, std::move(more)), body);
  }
  void send_json(const text::Json& json) { send(200, kJson, to_line(json)); }
  void send_error(const ApiError& error) {
    const bool anthropic = route_ == kMessagesPath;
    send(error.status, kJson, anthropic ? anthropic_error(error) : openai_error(error),
         error.headers);
  }
  void begin_stream() {
    metrics_.count_request(route_, 200);
    connection_.begin_stream(request_, 200, headers("text/event-stream", {}));
  }

 private:
  static Headers headers(std::string_view type, Headers more) {
    Headers all = {{"Content-Type", std::string(type)},
                   {"Cache-Control", "no-store"},
                   {"X-Content-Type-Options", "nosniff"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  HttpRequest& request_;
  HttpConnection& connection_;
  Metrics& metrics_;
  const char* route_ = "other";
  std::string client_;
};

Service::Service(const ServedModel& model, Worker& worker, Metrics& metrics, GuardOptions guard,
                 JobsApi* jobs, std::size_t most_values)
    : model_(model),
      worker_(worker),
      metrics_(metrics),
      guard_(std::move(guard)),
      jobs_(jobs),
      most_values_(most_values),
      watch_(model, worker),
      next_id_(random_seed()) {}

void Service::handle(HttpRequest& request, HttpConnection& connection) {
  Exchange exchange(request, connection, metrics_);
  if (const ApiStatus allowed = guard_.check_browser(request); !allowed) {
    return exchange.send_error(allowed.error());
  }
  route(exchange);
}

void Service::route(Exchange& exchange) {
  struct Route {
    const char* method;
    const char* path;
    bool needs_key;
    void (*serve)(Service&, Exchange&);
  };
  static constexpr Route kRoutes[] = {
      {"GET", "/health", false,
       [](Service&, Exchange& e) {
         e.send_json({{"status", "ok"}});
       }},
      {"GET", "/", false, [](Service&, Exchange& e) { send_page(e); }},
      {"GET", "/page.css", false, [](Service&, Exchange& e) { send_page(e); }},
      {"GET", "/page.js", false, [](Service&, Exchange& e) { send_page(e); }},
      {"GET", "/v1/experts", true, [](Service& s, Exchange& e) { s.send_experts(e); }},
      {"GET", "/openapi.json", false, [](Service&, Exchange& e) { e.send(200, kJson, openapi()); }},
      {"GET", "/v1/models", true, [](Service& s, Exchange& e) { e.send_json(s.models()); }},
      {"GET", "/v1/status", true, [](Service& s, Exchange& e) { e.send_json(s.watch_.status()); }},
      {"GET", "/metrics", true,
       [](Service& s, Exchange& e) {
         e.send(200, "text/plain; version=0.0.4",
                s.metrics_.text(s.worker_.snapshot(), s.model_.drive_limits));
       }},
      {"POST", "/v1/chat/completions", true,
       [](Service& s, Exchange& e) { s.answer(e, kChatPath); }},
      {"POST", "/v1/completions", true,
       [](Service& s, Exchange& e) { s.answer(e, kCompletionsPath); }},
      {"POST", "/v1/messages", true, [](Service& s, Exchange& e) { s.answer(e, kMessagesPath); }},
  };
  const HttpRequest& request = exchange.request();
  const Route* same_path = nullptr;
  for (const Route& route : kRoutes) {
    if (!exchange.is(route.path)) continue;
    same_path = &route;
    if (request.method != route.method &&
        !(request.method == "HEAD" && std::string_view(route.method) == "GET")) {
      continue;
    }
    exchange.set_route(route.path);
    if (route.needs_key) {
      const auto key = guard_.check_key(request);
      if (!key) return exchange.send_error(key.error());
      exchange.set_client(fmt::format("{}/{}", *key, request.peer));
    }
    return route.serve(*this, exchange);
  }
  if (same_path != nullptr) {
    ApiError error = {405, fmt::format("{} only takes {}", same_path->path, same_path->method)};
    error.headers.emplace_back("Allow", same_path->method);
    return exchange.send_error(error);
  }
  route_by_name(exchange);
}

/// Paths with the name of something in them.
void Service::route_by_name(Exchange& exchange) {
  const HttpRequest& request = exchange.request();
  const ApiError nothing = {
      404, "there is nothing at this path", "invalid_request_error", {}, "not_found"};
  if (!request.path.starts_with("/v1/")) return exchange.send_error(nothing);
  const auto key = guard_.check_key(request);
  if (!key) return exchange.send_error(key.error());
  if (request.path.starts_with("/v1/models/")) return send_model(exchange);
  auto reply = jobs_ == nullptr ? std::nullopt : jobs_->handle(request);
  if (!reply) return exchange.send_error(nothing);
  exchange.set_route("jobs");
  if (!*reply) return exchange.send_error(reply->error());
  exchange.send(200, (*reply)->type, (*reply)->body);
}

void Service::send_model(Exchange& exchange) {
  exchange.set_route("/v1/models");
  if (exchange.request().method != "GET") {
    ApiError error = {405, "a model only takes GET"};
    error.headers.emplace_back("Allow", "GET");
    return exchange.send_error(error);
  }
  const std::string name = exchange.request().path.substr(std::string_view("/v1/models/").size());
  if (name != model_.name) return exchange.send_error(no_such_model(name, model_));
  exchange.send_json(model());
}

/// A chat request that nobody waits for.
void Service::keep(Exchange& exchange, text::Json body) {
  if (jobs_ == nullptr) {
    return exchange.send_error({400, "background: needs a server with --state-dir",
                                "invalid_request_error", "background", "unsupported_value"});
  }
  body.erase("background");
  const auto kept = jobs_->keep_chat(body);
  if (!kept) return exchange.send_error(kept.error());
  exchange.send(202, kJson, kept->body);
}

/// A file of the page. Nothing in it may come from elsewhere, nor be written into it.
void Service::send_page(Exchange& exchange) {
  const PageFile file = *page_file(exchange.request().path);
  exchange.send(200, file.type, file.text,
                {{"Content-Security-Policy",
                  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                  "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                  "require-trusted-types-for 'script'; trusted-types 'none'"},
                 {"Cross-Origin-Opener-Policy", "same-origin"},
                 {"Cross-Origin-Resource-Policy", "same-origin"},
                 {"Referrer-Policy", "no-referrer"}});
}

void Service::send_experts(Exchange& exchange) {
  std::uint64_t since = 0;
  if (const auto text = query_value(exchange.request().query, "since"); text) {
    const char* const end = text->data() + text->size();
    const auto [rest, error] = std::from_chars(text->data(), end, since);
    if (error != std::errc() || rest != end) {
      return exchange.send_error({400, "since: must be a moment that an earlier answer named",
                                  "invalid_request_error", "since"});
    }
  }
  exchange.send(200, "application/octet-stream", watch_.experts(since));
}

void Service::answer(Exchange& exchange, std::string_view path) {
  std::optional<text::Json> for_later;
  auto asked = [&]() -> ApiResult<Asked> {
    const std::scoped_lock lock(parsing_);
    SLUICE_ASSIGN(text::Json body, parse_body(exchange.request().body, most_values_));
    if (path == kChatPath && body.value("background", text::Json()) == true) {
      for_later = std::move(body);
      return Asked{};
    }
    SLUICE_ASSIGN(Asked read, read_asked(path, body, model_, new_id(), random_seed()));
    const bool drawn_anew = !body.contains("seed") && !read.generation.sampling.is_greedy();
    if (!drawn_anew) read.generation.key = hash_of(path, exchange.request().body);
    return read;
  }();
  exchange.connection().drop_body(exchange.request());
  if (!asked) return exchange.send_error(asked.error());
  if (for_later) return keep(exchange, std::move(*for_later));
  const auto task = std::make_shared<Task>(asked->id, exchange.client() + "/" + asked->user,
                                           std::move(asked->generation));
  if (!worker_.submit(task)) return exchange.send_error(queue_full());
  if (asked->stream) {
    stream(exchange, task, *asked->writer);
  } else {
    collect(exchange, task, *asked->writer);
  }
}

ApiError Service::queue_full() {
  metrics_.count_refused();
  const WorkerStatus now = worker_.status();
  const std::size_t seconds = worker_.retry_after();
  ApiError error = {429,
                    fmt::format("{} requests wait already, as many as may; yours would have been "
                                "number {}; try again in about {} s",
                                now.queued, now.queued + 1, seconds),
                    "rate_limit_error",
                    {},
                    "queue_full"};
  error.headers.emplace_back("Retry-After", std::to_string(seconds));
  error.headers.emplace_back("X-Queue-Position", std::to_string(now.queued + 1));
  return error;
}

/// For a stream whose task waits: at which place, and how long about; empty where that was told.
std::string Service::place_of(const std::shared_ptr<Task>& task, bool again,
                              std::optional<std::size_t>& told) const {
  const auto turn = worker_.turn(task);
  if (!turn || turn->before == 0 || (told == turn->before && !again)) return {};
  told = turn->before;
  if (!turn->seconds) return fmt::format(": {} before this one\n\n", turn->before);
  return fmt::format(": {} before this one, about {:.0f} s\n\n", turn->before, *turn->seconds);
}

void Service::stream(Exchange& exchange, const std::shared_ptr<Task>& task, AnswerWriter& writer) {
  HttpConnection& connection = exchange.connection();
  exchange.begin_stream();
  connection.stream(writer.begin());
  auto silent_since = Clock::now();
  std::optional<std::size_t> told;  // how many are before it
  while (true) {
    const auto events = task->take(kPatience, Task::Wake::event);
    if (connection.is_gone()) return drop(task);
    std::string text;
    bool is_over = false;
    for (const TaskEvent& event : events) {
      text += written(event, writer);
      is_over = event.kind == TaskEvent::Kind::done || event.kind == TaskEvent::Kind::failed;
    }
    if (events.empty()) {
      const bool is_late = Clock::now() - silent_since >= kHeartbeat;
      text = place_of(task, is_late, told);
      if (is_late) text += writer.heartbeat();
    }
    connection.stream(text);
    if (is_over) {
      connection.end_stream();
      return answered(*task, events.back());
    }
    if (events.empty() && text.empty()) continue;
    silent_since = Clock::now();
    std::this_thread::sleep_for(kRest);
  }
}

/// As a part of a stream.
std::string Service::written(const TaskEvent& event, AnswerWriter& writer) {
  switch (event.kind) {
    case TaskEvent::Kind::started:
      return {};
    case TaskEvent::Kind::done:
      return writer.end(event.usage);
    case TaskEvent::Kind::failed:
      return writer.failed(to_api_error(*event.error));
    default:
      return writer.event(event);
  }
}

void Service::collect(Exchange& exchange, const std::shared_ptr<Task>& task, AnswerWriter& writer) {
  AnswerCollector collector(task->generation());
  while (true) {
    const auto events = task->take(kPatience, Task::Wake::end);
    if (exchange.connection().is_gone()) return drop(task);
    for (const TaskEvent& event : events) {
      if (event.kind == TaskEvent::Kind::done) {
        exchange.send_json(writer.whole(collector.choices(), event.usage));
        return answered(*task, event);
      }
      if (event.kind == TaskEvent::Kind::failed) {
        return exchange.send_error(to_api_error(*event.error));
      }
      collector.add(event);
    }
  }
}

/// The last event was written.
void Service::answered(const Task& task, const TaskEvent& last) {
  if (last.kind == TaskEvent::Kind::done) worker_.forget(task);
}

/// The client has left.
void Service::drop(const std::shared_ptr<Task>& task) {
  worker_.cancel(task);
  metrics_.count_left();
}

text::Json Service::model() const {
  text::Json efforts = text::Json::array();
  if (model_.format && model_.format->kind() == text::ChatFormat::Kind::kimi_k3) {
    efforts = {"max", "high", "low", "none"};
  }
  return {{"id", model_.name},
          {"object", "model"},
          {"created", model_.created},
          {"owned_by", "sluice"},
          {"context_length", model_.context},
          {"reasoning_efforts", efforts}};
}

text::Json Service::models() const {
  return {{"object", "list"}, {"data", text::Json::array({model()})}};
}

std::string Service::new_id() { return fmt::format("{:016x}", next_id_++ * 0x9e3779b97f4a7c15); }

}  // namespace sluice::server
