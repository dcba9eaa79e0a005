// Asking work to stop, from a signal handler or another thread.
#pragma once

#include <atomic>

namespace sluice {

/// Set by anyone, read by the work at its safe points (between tiles and experts).
class Cancellation {
 public:
  void request() noexcept { requested_.store(true, std::memory_order_relaxed); }
  void reset() noexcept { requested_.store(false, std::memory_order_relaxed); }
  bool requested() const noexcept { return requested_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> requested_{false};  // lock-free: a signal handler may set it
};

}  // namespace sluice
