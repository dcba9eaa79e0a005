// Looks at intervals whether something has stopped.
#pragma once

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

namespace sluice::io {

/// A thread of its own, since all others may be waiting for what has stopped. It sleeps between
/// the looks.
class StallWatch {
 public:
  /// Calls look() every so often until the object goes away. Without a thread for it nobody looks.
  StallWatch(std::chrono::milliseconds interval, std::function<void()> look);
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  std::uint64_t memory_bytes() const;

 private:
  static void* thread_main(void* watch);
  void serve();

  const std::chrono::milliseconds interval_;
  const std::function<void()> look_;
  pthread_t thread_{};
  bool started_ = false;
  std::mutex mutex_;  // guards what follows; look() is called without
  std::condition_variable wake_;
  bool stop_ = false;
};

}  // namespace sluice::io
