#include "server/server.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/memory_info.h"
#include "engine/engine.h"
#include "server/service.h"
#include "text/stop_ids.h"

namespace sluice::server {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::size_t kBodiesAtOnce = 4;
// Beside those that wait: connections for control endpoints and between requests.
constexpr std::size_t kSpareConnections = 7;
// Of JSON: a value in a list takes 16 bytes, one with a name some 60 and its heap block.
constexpr std::uint64_t kValueBytes = 80;
// Steps on their way to slow clients, answers that are collected, small things.
constexpr std::uint64_t kAnswerBytes = kMiB;

/// A token is some four bytes of text, escaped and quoted more; a list of ids is longer.
std::size_t body_bytes(std::size_t context) { return kMiB + 16 * context; }

std::size_t most_values(std::size_t context) { return 20'000 + 2 * context; }

HttpOptions http_options(const ServerOptions& options) {
  HttpOptions http;
  http.host = options.host;
  http.port = options.port;
  http.connections = options.queue + 1 + kSpareConnections;
  http.limits = options.limits;
  http.limits.body_bytes = body_bytes(options.engine.context);
  http.body_room = kBodiesAtOnce * http.limits.body_bytes;
  return http;
}

/// What the server itself may hold beside the engine, in bytes.
std::uint64_t own_bytes(const ServerOptions& options, std::size_t vocabulary) {
  const std::size_t context = options.engine.context;
  const std::uint64_t parsing =
      2 * body_bytes(context) + most_values(context) * kValueBytes;  // one body at a time
  const std::uint64_t sampling = vocabulary * 12;
  return HttpServer::memory_bytes(http_options(options)) + Worker::memory_bytes() + parsing +
         sampling + kAnswerBytes;
}

std::uint64_t saved_state_bytes(const ServerOptions& options) {
  constexpr std::uint64_t kShare = 16;
  if (options.saved_states) return *options.saved_states;
  const std::uint64_t ram =
      options.engine.ram.value_or(resident_memory() + available_memory() / 4 * 3);
  return ram / kShare;
}

std::string folder_name(std::filesystem::path folder) {
  std::error_code error;
  folder = std::filesystem::absolute(folder, error).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  const std::string name = folder.filename().string();
  return name.empty() ? "model" : name;
}

}  // namespace

/// In the order of making: what is later uses what is earlier.
struct Server::Parts {
  explicit Parts(text::Tokenizer known) : tokenizer(std::move(known)) {}

  text::Tokenizer tokenizer;
  ServedModel model;
  Metrics metrics;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<Service> service;
  std::unique_ptr<HttpServer> http;
};

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Server::~Server() {
  parts_->worker->stop();  // its tasks fail, so that clients are told before the connections end
}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  SLUICE_ASSIGN(text::Tokenizer tokenizer, text::Tokenizer::load(options.model_folder));
  auto parts = std::make_unique<Parts>(std::move(tokenizer));
  WorkerOptions work;
  SLUICE_ASSIGN(work.stop_ids, text::stop_ids(parts->tokenizer, options.model_folder));
  work.queue = options.queue;
  work.saved_states = saved_state_bytes(options);
  options.engine.reserve = own_bytes(options, parts->tokenizer.vocabulary());
  options.engine.saved_states = work.saved_states;
  SLUICE_ASSIGN(parts->engine, engine::Engine::open(options.engine));
  const model::Shape& shape = parts->engine->shape();
  work.stop_ids.insert(work.stop_ids.end(), shape.end_ids.begin(), shape.end_ids.end());
  options.engine.context = parts->engine->options().context;

  ServedModel& model = parts->model;
  model.name = options.name.empty() ? folder_name(options.model_folder) : options.name;
  model.tokenizer = &parts->tokenizer;
  if (const auto format = text::ChatFormat::detect(parts->tokenizer)) model.format = *format;
  model.context = options.engine.context;
  model.vocabulary = std::min(shape.vocabulary, parts->tokenizer.vocabulary());
  model.created = static_cast<std::int64_t>(std::time(nullptr));

  SLUICE_ASSIGN(parts->worker,
                Worker::start(*parts->engine, parts->tokenizer, parts->metrics, std::move(work)));
  GuardOptions guard = {options.host, options.keys, options.allowed_hosts};
  parts->service = std::make_unique<Service>(model, *parts->worker, parts->metrics,
                                             std::move(guard), most_values(model.context));
  SLUICE_ASSIGN(parts->http, HttpServer::start(http_options(options), *parts->service));
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

int Server::port() const { return parts_->http->port(); }
const std::string& Server::model_name() const { return parts_->model.name; }
std::size_t Server::context() const { return parts_->model.context; }
engine::Statistics Server::statistics() const { return parts_->worker->snapshot().engine; }

}  // namespace sluice::server
