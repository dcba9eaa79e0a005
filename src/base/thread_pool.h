// A fixed set of threads that share one piece of work at a time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace sluice {

/// Stack size of every thread that Sluice starts: small and known, since stacks are charged.
inline constexpr std::size_t kThreadStackBytes = std::size_t{256} << 10;

/// Runs `work` over items on all threads, the caller's included. A pass has hundreds of such runs,
/// many shorter than it takes to wake a thread: so a thread that waits looks for some microseconds
/// whether there is something to do, and then sleeps. Where there are more threads than processors
/// it sleeps at once.
class ThreadPool {
 public:
  /// `threads` >= 1 counts the calling thread: ThreadPool(1) starts none.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(handles_.size()) + 1; }
  /// Stack memory of the threads that the pool started, in bytes.
  std::uint64_t stack_bytes() const { return handles_.size() * kThreadStackBytes; }

  /// Calls work(item, worker) once for each item in [0, items), worker in [0, threads()).
  /// Returns when all calls returned. Which worker takes an item is not determined, so results
  /// must not depend on it. One run() at a time.
  void run(std::size_t items, FunctionRef<void(std::size_t item, int worker)> work);

 private:
  struct Start;
  static void* thread_main(void* start);
  void serve(int worker);
  void take_items(int worker);
  /// Waits until there is a run after `served`, or the end.
  void wait_for_run(std::uint64_t served);
  void wait_until_done();
  /// Looks for a short while; whether it came true.
  template <class Condition>
  bool comes_soon(Condition condition) const;

  using Work = FunctionRef<void(std::size_t, int)>;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const Work* work_ = nullptr;  // the run's work, null between runs
  std::size_t items_ = 0;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> generation_{0};  // counts runs: a thread never serves one twice
  std::atomic<int> busy_{0};                  // started threads still inside the run
  std::atomic<bool> stop_{false};
  int sleeping_ = 0;    // threads that must be woken; under mutex_
  bool looks_ = false;  // before it sleeps
  std::vector<pthread_t> handles_;
};

}  // namespace sluice
