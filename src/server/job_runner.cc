#include "server/job_runner.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/thread_pool.h"
#include "server/asked.h"
#include "server/fields.h"
#include "server/held_answer.h"
#include "server/last_resort.h"

namespace sluice::server {
namespace {

using std::chrono::milliseconds;

// A job that ends the process every time must not do so for ever. Attempts after which more of it
// was on disk than before do not count: a long answer may outlive any number of restarts.
constexpr std::int64_t kMostAttempts = 12;
// One that fails is tried again: a drive may have been away for a moment.
constexpr std::int64_t kMostFailures = 3;
constexpr milliseconds kPatience{100};
constexpr std::chrono::seconds kAfterError{1};

}  // namespace

std::uint64_t seed_of(const std::string& job_id) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : job_id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

Result<std::unique_ptr<JobRunner>> JobRunner::start(JobStore& store, Worker& worker,
                                                    const ServedModel& model, Parsing& parsing) {
  std::unique_ptr<JobRunner> runner(new JobRunner(store, worker, model, parsing));
  JobRunner* const self = runner.get();
  SLUICE_ASSIGN(Thread thread, Thread::start(kThreadStackBytes, [self] { self->work(); }));
  runner->thread_.emplace(std::move(thread));
  return runner;
}

JobRunner::~JobRunner() { stop(); }

void JobRunner::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.reset();  // joins
}

void JobRunner::wake() {
  {
    const std::scoped_lock lock(mutex_);
    news_ = true;
  }
  changed_.notify_all();
}

void JobRunner::cancel(const std::string& job_or_batch) {
  const std::scoped_lock lock(mutex_);
  if (job_or_batch == job_ || job_or_batch == batch_) cancelled_ = true;
}

void JobRunner::work() {
  while (true) {
    {
      const std::scoped_lock lock(mutex_);
      if (stop_) return;
      news_ = false;
    }
    Result<std::optional<StoredJob>> job = std::nullopt;
    if (const auto thrown = thrown_by([&] { job = store_.begin_next(); })) {
      job = fail(ErrorKind::memory, "{}", *thrown);
    }
    const bool has_job = job && *job;
    Status status;
    if (has_job) {
      status = run_or_fail(std::move(**job));
    } else if (!job) {
      status = tl::unexpected(std::move(job).error());
    }
    if (!status) warn(status.error());
    if (!status && has_job) give_back();
    std::unique_lock lock(mutex_);
    job_.clear();
    batch_.clear();
    if (status && has_job) continue;
    changed_.wait_for(lock, status ? std::chrono::seconds(60) : kAfterError,
                      [&] { return stop_ || (status && news_); });
  }
}

/// Writes to the store until that works, so that a full drive costs neither an answer nor a job.
/// Fails if the runner is to stop before.
Status JobRunner::insist(FunctionRef<Status()> write) {
  while (true) {
    Status written = write();
    if (written) {
      told_.clear();
      return written;
    }
    warn(written.error());
    std::unique_lock lock(mutex_);
    if (stop_) return written;
    changed_.wait_for(lock, kAfterError, [&] { return stop_; });
  }
}

/// Once for each message, as what failed is tried again and again.
void JobRunner::warn(const Error& error) {
  if (error.message == told_) return;
  told_ = error.message;
  log_warning("jobs: {}; it is tried again", told_);
}

/// The job under way could not be run: that was an attempt.
void JobRunner::give_back() {
  StoredJob job;
  job.id = job_;
  job.batch = batch_;
  // What could not be written before the end waits again at the next start.
  static_cast<void>(put_back(job, true));
}

Status JobRunner::put_back(const StoredJob& job, bool counts) {
  return insist([&] { return store_.put_back(job, counts); });
}

/// What is thrown in spite of everything is the end of this job, not of the server.
Status JobRunner::run_or_fail(StoredJob job) {
  Status status;
  const auto thrown = thrown_by([&] { status = run(job); });
  if (!thrown) return status;
  log_warning("job {} failed by a defect of the server: {}", job.id, *thrown);
  return fail_job(job, 500, openai_error({500, "the server failed at this job", "server_error"}));
}

Status JobRunner::run(StoredJob job) {
  {
    const std::scoped_lock lock(mutex_);
    job_ = job.id;
    batch_ = job.batch;
    cancelled_ = false;
  }
  // Whoever cancelled it before its name was known here has told the store alone.
  bool is_wanted = false;
  SLUICE_TRY(insist([&]() -> Status {
    SLUICE_ASSIGN(is_wanted, store_.is_wanted(job));
    return {};
  }));
  if (!is_wanted) return put_back(job, false);
  // Before the request is read: its very reading may be what ends the process. Only what grows
  // resets the count, so there is an end to it.
  const std::int64_t progress = progress_of(job);
  if (progress > job.progress) {
    SLUICE_TRY(insist([&] { return store_.note_progress(job, progress); }));
  }
  if (job.attempts > kMostAttempts) return set_aside(job);
  ApiResult<Asked> asked = read(job);
  // The room that others have now they give back: that is no fault of the job.
  while (!asked && asked.error().code == kNoGrammarRoom) {
    if (!wait()) return put_back(job, false);
    asked = read(job);
  }
  if (!asked) return fail_job(job, asked.error().status, openai_error(asked.error()));
  asked->generation.key = model_.key_of(seed_of(job.id), asked->generation.adapter);
  const auto task = std::make_shared<Task>(asked->id, "jobs", std::move(asked->generation));
  if (!submit(task)) return put_back(job, false);
  try {
    return run_task(job, task, *asked->writer);
  } catch (...) {
    worker_.cancel(task);  // nobody takes what it writes
    throw;
  }
}

ApiResult<Asked> JobRunner::read(const StoredJob& job) {
  const std::scoped_lock lock(parsing_.one_at_a_time);
  SLUICE_ASSIGN(const text::Json body, parse_body(job.body, parsing_.most_values));
  return read_asked(job.endpoint, body, model_, job.id, seed_of(job.id));
}

/// How much of its answer is on disk.
std::int64_t JobRunner::progress_of(const StoredJob& job) const {
  std::size_t most = 0;
  // Which adapter it asks for stands in its request; there is something with one of them at most.
  for (std::uint32_t adapter = 0; adapter <= model_.adapters.size(); ++adapter) {
    most = std::max(most, worker_.progress(model_.key_of(seed_of(job.id), adapter)));
  }
  return static_cast<std::int64_t>(most);
}

Status JobRunner::set_aside(StoredJob& job) {
  return fail_job(job, 500,
                  openai_error({500,
                                fmt::format("set aside after {} attempts that neither ended nor "
                                            "came on",
                                            job.attempts - 1),
                                "server_error",
                                {},
                                "too_many_attempts"}));
}

/// A moment; false if the job under way is to end.
bool JobRunner::wait() {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, kPatience, [&] { return stop_ || cancelled_; });
}

/// Waits for a place in the queue; false if the job is to end.
bool JobRunner::submit(const std::shared_ptr<Task>& task) {
  while (!worker_.submit(task)) {
    if (!wait()) return false;
  }
  return true;
}

Status JobRunner::run_task(StoredJob& job, const std::shared_ptr<Task>& task,
                           AnswerWriter& writer) {
  AnswerCollector collector(task->generation());
  while (true) {
    const auto events = task->take(kPatience, Task::Wake::end);
    bool ends = false;
    {
      const std::scoped_lock lock(mutex_);
      ends = stop_ || cancelled_;
    }
    if (ends) {
      worker_.cancel(task);
      return put_back(job, false);
    }
    for (const TaskEvent& event : events) {
      if (event.kind == TaskEvent::Kind::done) {
        SLUICE_TRY(finish(job, writer.whole_line(collector.choices(), event.usage)));
        worker_.forget(*task);
        return {};
      }
      if (event.kind == TaskEvent::Kind::failed) return end_failed(job, *event.error);
      collector.add(event);
    }
  }
}

/// It has its answer.
Status JobRunner::finish(StoredJob& job, std::string result) {
  if (result.size() > JobStore::kMostBytes) {  // no store would ever take it
    return fail_job(job, 500,
                    openai_error({500,
                                  fmt::format("the answer has more than the {} bytes that are kept",
                                              JobStore::kMostBytes),
                                  "server_error",
                                  {},
                                  "answer_too_large"}));
  }
  job.http_status = 200;
  job.result = std::move(result);
  return insist([&] { return store_.finish(job, true); });
}

/// Its task failed: it is tried again, or that is its result.
Status JobRunner::end_failed(StoredJob& job, const Error& failure) {
  if (failure.kind == ErrorKind::interrupted) return put_back(job, false);
  const ApiError error = to_api_error(failure);
  if (error.status >= 500 && job.attempts < kMostFailures) return put_back(job, true);
  return fail_job(job, error.status, openai_error(error));
}

Status JobRunner::fail_job(StoredJob& job, int status, std::string result) {
  job.http_status = status;
  job.result = std::move(result);
  return insist([&] { return store_.finish(job, false); });
}

}  // namespace sluice::server
