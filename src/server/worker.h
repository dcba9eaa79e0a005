// The one thread that uses the engine: takes tasks in turn, and tells how far it is.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/conversations.h"
#include "server/fair_queue.h"
#include "server/metrics.h"
#include "server/task.h"
#include "server/thread.h"
#include "text/token_constraint.h"
#include "text/tokenizer.h"

namespace sluice::server {

struct WorkerOptions {
  std::size_t queue = 16;              ///< tasks that may wait
  ConversationOptions conversations;   ///< that go on
  std::vector<std::int32_t> stop_ids;  ///< end an answer
};

/// Where the worker is. Times in seconds.
struct WorkerStatus {
  enum class Phase : std::uint8_t { idle, prefill, decode };
  Phase phase = Phase::idle;
  std::string task;  ///< its id; empty when idle
  std::size_t choice = 0;
  std::size_t choices = 0;
  std::size_t layer = 0;
  std::size_t layers = 0;
  std::size_t prompt_tokens = 0;  ///< to be computed: cached ones do not count
  std::size_t prompt_done = 0;    ///< whole chunks
  std::size_t generated = 0;
  std::size_t max_new = 0;
  double running_s = 0;
  std::optional<double> seconds_per_token;  ///< of decoding, lately
  std::optional<double> left_s;             ///< if the answer takes all its tokens
  std::size_t queued = 0;
  std::size_t queue_limit = 0;
};

class Worker {
 public:
  /// The engine (opened with watch_experts), the tokenizer and the metrics must outlive the worker,
  /// and nobody else may use the engine meanwhile.
  static Result<std::unique_ptr<Worker>> start(engine::Engine& engine,
                                               const text::Tokenizer& tokenizer, Metrics& metrics,
                                               WorkerOptions options);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Stops what runs, fails what waits, and takes nothing more.
  void stop();

  /// Memory of its thread, in bytes.
  static std::uint64_t memory_bytes();

  /// Queues a task. False if the queue is full.
  bool submit(const std::shared_ptr<Task>& task);
  /// Nobody waits for the task any more: it is dropped, or stopped within a layer.
  void cancel(const std::shared_ptr<Task>& task);
  /// The task's answer has arrived: what was kept to continue it after a crash may go.
  void forget(const Task& task);
  /// How much of the answers to what has this key (see Generation) would outlive a crash, in ids.
  std::size_t progress(std::uint64_t key) const { return conversations_->progress(key); }

  struct Turn {
    std::size_t before = 0;         ///< tasks before it; 0: it runs
    std::optional<double> seconds;  ///< until it runs, as tasks took lately; none: not known yet
  };
  /// When the task's turn comes; none if it is done.
  std::optional<Turn> turn(const std::shared_ptr<Task>& task) const;
  WorkerStatus status() const;
  MetricsSnapshot snapshot() const;
  const weights::ExpertActivity& activity() const { return *engine_.activity(); }
  /// Seconds until a place in the queue should be free; a guess, at least 1.
  std::size_t retry_after() const;

 private:
  class Run;
  Worker(engine::Engine& engine, const text::Tokenizer& tokenizer, Metrics& metrics,
         WorkerOptions options);
  void work();
  Status run(const std::shared_ptr<Task>& task);
  void publish();
  const text::TokenIndex& token_index();

  engine::Engine& engine_;
  const text::Tokenizer& tokenizer_;
  Metrics& metrics_;
  const WorkerOptions options_;

  // The worker's thread alone.
  std::unique_ptr<Conversations> conversations_;
  std::optional<text::TokenIndex> token_index_;  // once an answer had to be held to a grammar
  engine::TokenCounts counts_;

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  FairQueue<std::shared_ptr<Task>> queue_;
  std::shared_ptr<Task> running_;
  WorkerStatus status_;
  Clock::time_point started_;  // the running task
  MetricsSnapshot published_;
  Clock::time_point published_at_;
  double task_seconds_ = 0;  // of tasks lately; 0: none yet
  bool stop_ = false;
  std::optional<Thread> thread_;
};

}  // namespace sluice::server
