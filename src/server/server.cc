#include "server/server.h"

#include <utility>

#include "engine/model_text.h"
#include "server/drive_limits.h"
#include "server/host.h"
#include "server/job_runner.h"
#include "server/jobs_api.h"
#include "server/service.h"

namespace sluice::server {
namespace {

constexpr std::size_t kBodiesAtOnce = 4;
// Beside those that wait: connections for control endpoints and between requests.
constexpr std::size_t kSpareConnections = 7;
// SQLite's cache and code, the thread of jobs, and the request and answer of one.
constexpr std::uint64_t kJobBytes = std::uint64_t{4} << 20;

HttpOptions http_options(const ServerOptions& options, std::size_t context) {
  HttpOptions http;
  http.host = options.address;
  http.port = options.port;
  http.connections = options.host.queue + 1 + kSpareConnections;
  http.limits = options.limits;
  http.limits.body_bytes = most_body_bytes(context);
  http.body_room = kBodiesAtOnce * http.limits.body_bytes;
  return http;
}

}  // namespace

/// In the order of making: what is later uses what is earlier.
struct Server::Parts {
  std::unique_ptr<Host> host;
  std::unique_ptr<Parsing> parsing;
  std::unique_ptr<JobStore> store;
  std::unique_ptr<JobRunner> runner;
  std::unique_ptr<JobsApi> jobs;
  std::unique_ptr<Service> service;
  std::unique_ptr<HttpServer> http;
};

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Server::~Server() {
  if (parts_->runner) parts_->runner->stop();  // its job goes back to the store
  parts_->host->worker().stop();  // its tasks fail, so that clients are told before connections end
}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  // Before anything that takes time or leaves something behind.
  SLUICE_TRY(engine::expect_tokenizer(options.host.engine.model));
  auto parts = std::make_unique<Parts>();
  options.host.reserve =
      HttpServer::memory_bytes(http_options(options, options.host.engine.context));
  if (!options.state_folder.empty()) {
    options.host.reserve += kJobBytes;
    // First, so that SQLite is in memory when the budget is drawn up.
    SLUICE_ASSIGN(parts->store, JobStore::open(options.state_folder));
    options.host.state_folder = options.state_folder / "states";
  }
  options.host.drive_limits = measure_drive_limits(options.host.engine);
  SLUICE_ASSIGN(parts->host, Host::start(options.host));
  const ServedModel& model = parts->host->model();
  parts->parsing = std::make_unique<Parsing>(most_body_values(model.context));
  Parsing& parsing = *parts->parsing;
  if (parts->store) {
    SLUICE_ASSIGN(parts->runner,
                  JobRunner::start(*parts->store, parts->host->worker(), model, parsing));
    parts->jobs = std::make_unique<JobsApi>(*parts->store, *parts->runner, model, parsing);
  }
  GuardOptions guard = {options.address, options.keys, options.allowed_hosts};
  parts->service = std::make_unique<Service>(model, parts->host->worker(), parts->host->metrics(),
                                             std::move(guard), parts->jobs.get(), parsing);
  SLUICE_ASSIGN(parts->http,
                HttpServer::start(http_options(options, model.context), *parts->service));
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

int Server::port() const { return parts_->http->port(); }
const std::string& Server::model_name() const { return parts_->host->model().name; }
std::size_t Server::context() const { return parts_->host->model().context; }
engine::Statistics Server::statistics() const { return parts_->host->worker().snapshot().engine; }

}  // namespace sluice::server
