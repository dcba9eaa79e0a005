// The routes of the server: what each path does.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/answer_writer.h"
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
  /// All must outlive the service. `jobs`: nullptr if there are none. `most_values`: JSON values
  /// that a request's body may have.
  Service(const ServedModel& model, Worker& worker, Metrics& metrics, GuardOptions guard,
          JobsApi* jobs, std::size_t most_values);

  void handle(HttpRequest& request, HttpConnection& connection) override;

 private:
  class Exchange;

  void route(Exchange& exchange);
  void answer(Exchange& exchange, std::string_view path);
  void stream(Exchange& exchange, const std::shared_ptr<Task>& task, AnswerWriter& writer);
  void collect(Exchange& exchange, const std::shared_ptr<Task>& task, AnswerWriter& writer);
  static std::string written(const TaskEvent& event, AnswerWriter& writer);
  void answered(const Task& task, const TaskEvent& last);
  void drop(const std::shared_ptr<Task>& task);
  ApiError queue_full();
  std::string place_of(const std::shared_ptr<Task>& task, bool again,
                       std::optional<std::size_t>& told) const;
  text::Json models() const;
  text::Json model() const;
  void route_by_name(Exchange& exchange);
  void send_model(Exchange& exchange);
  static void send_page(Exchange& exchange);
  void send_experts(Exchange& exchange);
  void keep(Exchange& exchange, text::Json body);
  std::string new_id();

  const ServedModel& model_;
  Worker& worker_;
  Metrics& metrics_;
  const Guard guard_;
  JobsApi* const jobs_;
  const std::size_t most_values_;
  const Watch watch_;
  std::mutex parsing_;  // one body at a time: what it becomes in memory is many times its size
  std::atomic<std::uint64_t> next_id_;
};

}  // namespace sluice::server
