#include "server/worker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "server/last_resort.h"
#include "server/task_run.h"

namespace sluice::server {
namespace {

// Passes were made for a main thread's stack; this is many times what one takes.
constexpr std::size_t kStackBytes = std::size_t{1} << 20;

constexpr double kPublishSeconds = 0.5;

}  // namespace

std::uint64_t Worker::memory_bytes() { return kStackBytes; }

Worker::Worker(engine::Engine& engine, const text::Tokenizer& tokenizer, Metrics& metrics,
               WorkerOptions options)
    : engine_(engine),
      tokenizer_(tokenizer),
      metrics_(metrics),
      options_(std::move(options)),
      board_(engine.shape().layers),
      queue_(options_.queue) {}

Result<std::unique_ptr<Worker>> Worker::start(engine::Engine& engine,
                                              const text::Tokenizer& tokenizer, Metrics& metrics,
                                              WorkerOptions options) {
  SLUICE_CHECK(engine.activity() != nullptr);
  std::unique_ptr<Worker> worker(new Worker(engine, tokenizer, metrics, std::move(options)));
  SLUICE_ASSIGN(worker->conversations_,
                Conversations::open(engine, worker->options_.conversations));
  worker->publish();
  Worker* const self = worker.get();
  SLUICE_ASSIGN(Thread thread, Thread::start(kStackBytes, [self] { self->work(); }));
  worker->thread_.emplace(std::move(thread));
  return worker;
}

Worker::~Worker() { stop(); }

void Worker::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    if (running_) running_->cancellation().request();
  }
  arrived_.notify_all();
  thread_.reset();  // joins
  const std::scoped_lock lock(mutex_);
  while (const auto task = queue_.pop()) {
    TaskEvent event = {TaskEvent::Kind::failed};
    event.error = Error{ErrorKind::interrupted, "the server is shutting down"};
    (*task)->add(std::move(event));
  }
}

bool Worker::submit(const std::shared_ptr<Task>& task) {
  {
    const std::scoped_lock lock(mutex_);
    if (stop_ || !queue_.push(task->client(), task)) return false;
  }
  arrived_.notify_one();
  return true;
}

bool Worker::is_stopping() const {
  const std::scoped_lock lock(mutex_);
  return stop_;
}

void Worker::cancel(const std::shared_ptr<Task>& task) {
  task->cancellation().request();
  const std::scoped_lock lock(mutex_);
  queue_.remove(task);
}

void Worker::forget(const Task& task) {
  const Generation& plan = task.generation();
  if (plan.key == 0) return;
  for (std::size_t choice = 0; choice < plan.choices * plan.prompts.size(); ++choice) {
    conversations_->forget(answer_key(plan.key, choice));
  }
}

std::optional<Worker::Turn> Worker::turn(const std::shared_ptr<Task>& task) const {
  const std::scoped_lock lock(mutex_);
  if (running_ == task) return Turn{0, 0.0};
  const auto queued_before = queue_.position(task);
  if (!queued_before) return std::nullopt;
  Turn turn = {*queued_before + (running_ ? 1 : 0), std::nullopt};
  if (task_seconds_ <= 0) return turn;
  turn.seconds = static_cast<double>(*queued_before) * task_seconds_;
  if (running_) {
    // What is left at most is far more than most answers take.
    const double usual = std::max(0.0, task_seconds_ - seconds_since(started_));
    *turn.seconds += std::min(board_.status().left_s.value_or(usual), usual);
  }
  return turn;
}

WorkerStatus Worker::status() const {
  const std::scoped_lock lock(mutex_);
  WorkerStatus status = board_.status();
  status.running_s = running_ ? seconds_since(started_) : 0;
  status.queued = queue_.size();
  status.queue_limit = queue_.limit();
  return status;
}

MetricsSnapshot Worker::snapshot() const {
  engine::LiveStatistics live = engine_.live();
  const std::scoped_lock lock(mutex_);
  MetricsSnapshot now = published_;
  now.live = std::move(live);
  now.queued = queue_.size();
  now.queue_limit = queue_.limit();
  now.running = running_ != nullptr;
  now.saved_written_bytes = conversations_->disk_written_bytes();
  return now;
}

std::size_t Worker::retry_after() const {
  const std::scoped_lock lock(mutex_);
  const double left = board_.status().left_s.value_or(task_seconds_);
  return static_cast<std::size_t>(std::clamp(std::ceil(left), 1.0, 86'400.0));
}

/// Makes the engine's statistics known to other threads, which may not ask the engine itself.
void Worker::publish() {
  if (published_at_ != Clock::time_point() && seconds_since(published_at_) < kPublishSeconds)
    return;
  MetricsSnapshot now;
  now.engine = engine_.statistics(counts_);
  now.saved_states = conversations_->count();
  now.saved_state_bytes = conversations_->bytes();
  now.saved_on_disk_bytes = conversations_->disk_bytes();
  published_at_ = Clock::now();
  const std::scoped_lock lock(mutex_);
  published_ = std::move(now);
}

const text::TokenIndex& Worker::token_index() {
  if (!token_index_) token_index_.emplace(tokenizer_);
  return *token_index_;
}

void Worker::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    arrived_.wait(lock, [&] { return stop_ || queue_.size() > 0; });
    if (stop_) return;
    running_ = *queue_.pop();
    started_ = Clock::now();
    const std::shared_ptr<Task> task = running_;
    const Generation& plan = task->generation();
    board_.begin_task(task->id(), plan.choices * plan.prompts.size(), plan.max_new);
    lock.unlock();
    const Status status = run(task);
    published_at_ = {};
    if (const auto thrown = thrown_by([this] { publish(); })) log_warning("{}", *thrown);
    lock.lock();
    if (status) task_seconds_ = averaged(task_seconds_, seconds_since(started_));
    running_.reset();
    board_.end_task();
  }
}

Status Worker::run(const std::shared_ptr<Task>& task) {
  const Workplace place = {engine_,
                           tokenizer_,
                           options_.stop_ids,
                           *conversations_,
                           metrics_,
                           board_,
                           counts_,
                           [this]() -> const text::TokenIndex& { return token_index(); },
                           [this] { publish(); }};
  Status status;
  const auto thrown = thrown_by([&] { status = run_task(place, *task); });
  if (thrown) {
    log_warning("{} failed by a defect of the server: {}", task->id(), *thrown);
    conversations_->drop_held();
    status = fail(ErrorKind::number, "the server failed at this request");
  }
  if (!status) {
    task->drop_grammar();
    TaskEvent event = {TaskEvent::Kind::failed};
    event.error = status.error();
    task->add(std::move(event));
  }
  return status;
}

}  // namespace sluice::server
