// Requests for answers: into the queue, and what comes of them back to the client.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/answer_writer.h"
#include "server/exchange.h"
#include "server/jobs_api.h"
#include "server/metrics.h"
#include "server/parsing.h"
#include "server/served_model.h"
#include "server/worker.h"

namespace sluice::server {

/// Thread-safe.
class Answering {
 public:
  /// All must outlive it. `jobs`: nullptr if there are none.
  Answering(const ServedModel& model, Worker& worker, Metrics& metrics, JobsApi* jobs,
            Parsing& parsing);

  /// Reads the request as one for `path` (see read_asked()), and answers it: returns when the
  /// answer has ended, or its client has left.
  void answer(Exchange& exchange, std::string_view path);

 private:
  void stream(Exchange& exchange, const std::shared_ptr<Task>& task, AnswerWriter& writer);
  void collect(Exchange& exchange, const std::shared_ptr<Task>& task, AnswerWriter& writer);
  void answered(const Task& task, const TaskEvent& last);
  void drop(const std::shared_ptr<Task>& task);
  ApiError not_taken();
  ApiError queue_full();
  std::string place_of(const std::shared_ptr<Task>& task, bool again,
                       std::optional<std::size_t>& told) const;
  ApiResult<JobsApi::Chat> read_for_later(text::Json body);
  void keep(Exchange& exchange, JobsApi::Chat chat);
  std::string new_id();

  const ServedModel& model_;
  Worker& worker_;
  Metrics& metrics_;
  JobsApi* const jobs_;
  Parsing& parsing_;
  std::atomic<std::uint64_t> next_id_;
};

}  // namespace sluice::server
