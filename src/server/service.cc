#include "server/service.h"

#include <charconv>
#include <utility>

#include "base/percent.h"
#include "server/asked.h"
#include "server/openapi.h"
#include "server/page.h"
#include "server/request_parts.h"

namespace sluice::server {

Service::Service(const ServedModel& model, Worker& worker, Metrics& metrics, GuardOptions guard,
                 JobsApi* jobs, Parsing& parsing)
    : model_(model),
      worker_(worker),
      metrics_(metrics),
      guard_(std::move(guard)),
      jobs_(jobs),
      watch_(model, worker),
      answering_(model, worker, metrics, jobs, parsing) {}

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
      {"GET", "/openapi.json", false,
       [](Service&, Exchange& e) { e.send(200, kJsonType, openapi()); }},
      {"GET", "/v1/models", true, [](Service& s, Exchange& e) { e.send_json(s.models()); }},
      {"GET", "/v1/status", true, [](Service& s, Exchange& e) { e.send_json(s.watch_.status()); }},
      {"GET", "/metrics", true,
       [](Service& s, Exchange& e) {
         e.send(200, "text/plain; version=0.0.4",
                s.metrics_.text(s.worker_.snapshot(), s.model_.drive_limits));
       }},
      {"POST", "/v1/chat/completions", true,
       [](Service& s, Exchange& e) { s.answering_.answer(e, kChatPath); }},
      {"POST", "/v1/completions", true,
       [](Service& s, Exchange& e) { s.answering_.answer(e, kCompletionsPath); }},
      {"POST", "/v1/messages", true,
       [](Service& s, Exchange& e) { s.answering_.answer(e, kMessagesPath); }},
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
  if ((*reply)->content) return exchange.send_content(*(*reply)->content, (*reply)->type);
  exchange.send(200, (*reply)->type, (*reply)->body);
}

void Service::send_model(Exchange& exchange) {
  exchange.set_route("/v1/models");
  if (exchange.request().method != "GET") {
    ApiError error = {405, "a model only takes GET"};
    error.headers.emplace_back("Allow", "GET");
    return exchange.send_error(error);
  }
  const std::string sent = exchange.request().path.substr(std::string_view("/v1/models/").size());
  const auto name = percent_decoded(sent);
  const auto adapter = name ? model_.find(*name) : std::nullopt;
  if (!adapter) return exchange.send_error(no_such_model(name.value_or(sent), model_));
  exchange.send_json(model(*adapter));
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

/// The model, or one of its adapters.
text::Json Service::model(std::uint32_t adapter) const {
  text::Json efforts = text::Json::array();
  if (model_.format && model_.format->kind() == text::ChatFormat::Kind::kimi_k3) {
    efforts = {"max", "high", "low", "none"};
  } else if (model_.format && model_.format->kind() == text::ChatFormat::Kind::harmony) {
    efforts = {"medium", "high", "low"};
  }
  text::Json json = {{"id", model_.name_of(adapter)},    {"object", "model"},
                     {"created", model_.created},        {"owned_by", "sluice"},
                     {"context_length", model_.context}, {"reasoning_efforts", efforts}};
  if (adapter > 0) json["parent"] = model_.name;
  return json;
}

text::Json Service::models() const {
  text::Json all = text::Json::array();
  for (std::uint32_t adapter = 0; adapter <= model_.adapters.size(); ++adapter) {
    all.push_back(model(adapter));
  }
  return {{"object", "list"}, {"data", std::move(all)}};
}

}  // namespace sluice::server
