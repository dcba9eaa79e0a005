// The routes of the server: what each path does.
#pragma once

#include <string>

#include "server/answering.h"
#include "server/exchange.h"
#include "server/guard.h"
#include "server/http_server.h"
#include "server/jobs_api.h"
#include "server/metrics.h"
#include "server/served_model.h"
#include "server/watch.h"
#include "server/worker.h"

namespace sluice::server {

class Service final : public HttpHandler {
 public:
  /// All must outlive the service. `jobs`: nullptr if there are none.
  Service(const ServedModel& model, Worker& worker, Metrics& metrics, GuardOptions guard,
          JobsApi* jobs, Parsing& parsing);

  void handle(HttpRequest& request, HttpConnection& connection) override;

 private:
  void route(Exchange& exchange);
  text::Json models() const;
  text::Json model(std::uint32_t adapter) const;
  void route_by_name(Exchange& exchange);
  void send_model(Exchange& exchange);
  static void send_page(Exchange& exchange);
  void send_experts(Exchange& exchange);

  const ServedModel& model_;
  Worker& worker_;
  Metrics& metrics_;
  const Guard guard_;
  JobsApi* const jobs_;
  const Watch watch_;
  Answering answering_;
};

}  // namespace sluice::server
