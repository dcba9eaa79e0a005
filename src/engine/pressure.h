// Living with less memory than was promised: other processes need some of it for a while.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"

namespace sluice::engine {

/// What the system says about memory at one moment.
struct MemorySigns {
  std::uint64_t available_bytes = 0;  ///< that this process could still take (machine, group)
  std::uint64_t resident_bytes = 0;   ///< of this process
  double stalled_s = 0;            ///< so long tasks of the group or the machine waited for memory
  std::uint64_t major_faults = 0;  ///< of this process, since its start
};

class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual MemorySigns look() = 0;
  virtual Clock::time_point now() { return Clock::now(); }
};
/// This machine: MemAvailable, limits of control groups (v1 and v2), pressure stall information.
/// `count_faults` is false where faults are how weights are read (mmap).
std::unique_ptr<MemorySource> system_memory(bool count_faults);

/// Decides at safe points how much of what can be missed must be given back, or may be taken again.
/// Looks five times a second, more often while memory is short.
class PressureGuard {
 public:
  /// `ram` is the budget: what is kept free for others is a small part of it.
  PressureGuard(std::unique_ptr<MemorySource> source, std::uint64_t ram);

  struct Step {
    std::uint64_t give_back = 0;  ///< bytes
    std::uint64_t take_back = 0;  ///< bytes, at most
    std::uint64_t available = 0;  ///< for a note
  };
  /// `gone_bytes` are given back at present, `kept_bytes` could be.
  Step check(std::uint64_t gone_bytes, std::uint64_t kept_bytes);

  std::uint64_t reserve() const { return reserve_; }

 private:
  bool is_suffering(const MemorySigns& signs, double seconds) const;

  const std::unique_ptr<MemorySource> source_;
  const std::uint64_t reserve_;  // bytes that others shall find free
  MemorySigns last_;
  Clock::time_point last_look_;
  Clock::time_point calm_since_;
  Clock::duration interval_;
  bool has_looked_ = false;
};

}  // namespace sluice::engine
