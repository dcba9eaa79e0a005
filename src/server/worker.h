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
#include "server/status_board.h"
#include "server/task.h"
#include "server/thread.h"
#include "text/token_index.h"
#include "text/tokenizer.h"

namespace sluice::server {

struct WorkerOptions {
  std::size_t queue = 16;              ///< tasks that may wait
  ConversationOptions conversations;   ///< that go on
  std::vector<std::int32_t> stop_ids;  ///< end an answer
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

  /// Queues a task. False if the queue is full, or the worker stops.
  bool submit(const std::shared_ptr<Task>& task);
  /// No task is taken any more.
  bool is_stopping() const;
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

  StatusBoard board_;  // has a lock of its own, taken after mutex_ if both are
  // The worker's thread alone.
  std::unique_ptr<Conversations> conversations_;
  std::optional<text::TokenIndex> token_index_;  // once an answer had to be held to a grammar
  engine::TokenCounts counts_;

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  FairQueue<std::shared_ptr<Task>> queue_;
  std::shared_ptr<Task> running_;
  Clock::time_point started_;  // the running task
  MetricsSnapshot published_;
  Clock::time_point published_at_;
  double task_seconds_ = 0;  // of tasks lately; 0: none yet
  bool stop_ = false;
  std::optional<Thread> thread_;
};

}  // namespace sluice::server
