// How much may be written over time, for drives wear out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace sluice::server {

/// Whoever writes owes what it wrote until the time since the start has paid for it, and nothing
/// may be written while something is owed. Half a minute is paid in advance, so that a process that
/// is ended again and again keeps what it did in between. So what was written is never more than
/// rate * (time + 30 s) and one piece.
class WriteBudget {
 public:
  /// `rate`: bytes per second; none: there is no bound.
  WriteBudget(std::optional<std::uint64_t> rate, Clock::time_point start)
      : rate_(rate), start_(start) {}

  static constexpr double kAdvanceSeconds = 30;

  bool owes(Clock::time_point now) const { return seconds_owed(now) > 0; }
  /// Until nothing is owed, if nothing is written meanwhile.
  double seconds_owed(Clock::time_point now) const {
    if (!rate_ || spent_ == 0) return 0;
    const double paid_after =
        static_cast<double>(spent_) / static_cast<double>(std::max<std::uint64_t>(*rate_, 1));
    return std::max(0.0, paid_after - kAdvanceSeconds - seconds_between(start_, now));
  }
  void spend(std::uint64_t bytes) { spent_ += bytes; }

 private:
  const std::optional<std::uint64_t> rate_;
  const Clock::time_point start_;
  std::uint64_t spent_ = 0;
};

}  // namespace sluice::server
