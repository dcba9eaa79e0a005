// Does the jobs of the store, one after another, in turn with the clients that wait.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/function_ref.h"
#include "server/asked.h"
#include "server/job_store.h"
#include "server/parsing.h"
#include "server/served_model.h"
#include "server/task.h"
#include "server/thread.h"
#include "server/worker.h"

namespace sluice::server {

class JobRunner {
 public:
  /// All must outlive the runner.
  static Result<std::unique_ptr<JobRunner>> start(JobStore& store, Worker& worker,
                                                  const ServedModel& model, Parsing& parsing);
  ~JobRunner();
  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

  /// The job under way goes back to the store.
  void stop();
  /// There is something new to do.
  void wake();
  /// Stops the job under way if it is this one, or one of this batch.
  void cancel(const std::string& job_or_batch);

 private:
  JobRunner(JobStore& store, Worker& worker, const ServedModel& model, Parsing& parsing)
      : store_(store), worker_(worker), model_(model), parsing_(parsing) {}
  void work();
  Status insist(FunctionRef<Status()> write);
  void warn(const Error& error);
  void give_back();
  Status put_back(const StoredJob& job, bool counts);
  Status run_or_fail(StoredJob job);
  Status run(StoredJob job);
  ApiResult<Asked> read(const StoredJob& job);
  std::int64_t progress_of(const StoredJob& job) const;
  Status set_aside(StoredJob& job);
  Status run_task(StoredJob& job, const std::shared_ptr<Task>& task, class AnswerWriter& writer);
  Status finish(StoredJob& job, std::string result);
  Status end_failed(StoredJob& job, const Error& failure);
  Status fail_job(StoredJob& job, int status, std::string result);
  bool wait();
  bool submit(const std::shared_ptr<Task>& task);

  JobStore& store_;
  Worker& worker_;
  const ServedModel& model_;
  Parsing& parsing_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  bool news_ = false;
  std::string job_;    // under way
  std::string batch_;  // of it
  bool cancelled_ = false;
  std::string told_;  // the last warning; the thread's alone
  std::optional<Thread> thread_;
};

/// The seed of a job whose request has none: always the same, so that a job which is begun again
/// ends as it would have.
std::uint64_t seed_of(const std::string& job_id);

}  // namespace sluice::server
