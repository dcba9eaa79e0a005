// How many reads a drive wants under way at a time, found while it reads.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace sluice::io {

/// Climbs by doubling as long as that gives at least 5 % more bytes per second, and goes down by
/// halving as long as that costs at most 2 %: the smallest depth at full speed, since what is under
/// way delays what is needed next. Each depth is measured over a stretch of time in which the drive
/// always had as many reads as the depth allows; a drive that is asked for less has no depth to
/// find and keeps the one it has. After a while the search begins anew: drives change.
///
/// Not thread-safe. Time is the caller's, so that tests can make it.
class DepthFinder {
 public:
  static constexpr int kStart = 16;
  static constexpr int kLeast = 4;
  static constexpr int kMost = 64;
  /// What a depth is measured over, at least: both must have passed.
  static constexpr std::uint64_t kTrialBytes = std::uint64_t{64} << 20;
  static constexpr double kTrialS = 0.05;
  /// Full-depth reading after which a found depth is looked at again.
  static constexpr double kTrustedS = 30;

  int depth() const { return depth_; }

  /// A read of `bytes` ended. `full`: until now as many were under way as depth() allows.
  void report(std::uint64_t bytes, bool full, Clock::time_point now);

 private:
  enum class Step : std::uint8_t { base, up, down, found };

  void judge(double bytes_per_s);
  void go_to(int depth, Step step);
  void settle(int depth);

  int depth_ = kStart;
  Step step_ = Step::base;
  bool climbed_ = false;  // in this search
  int best_depth_ = kStart;
  double best_bytes_per_s_ = 0;
  // Of the trial under way.
  std::uint64_t bytes_ = 0;
  double seconds_ = 0;
  int to_skip_ = kStart;  // reads that still belong to the depth before
  bool has_last_ = false;
  Clock::time_point last_;
};

}  // namespace sluice::io
