#include "io/depth_finder.h"

#include <chrono>

namespace sluice::io {
namespace {

constexpr double kWorthMore = 1.05;
constexpr double kWorthLess = 0.98;

}  // namespace

void DepthFinder::report(std::uint64_t bytes, bool full, Clock::time_point now) {
  const bool counts = full && has_last_ && to_skip_ == 0;
  if (full && to_skip_ > 0) --to_skip_;
  if (counts) {
    bytes_ += bytes;
    seconds_ += std::chrono::duration<double>(now - last_).count();
  }
  has_last_ = full;
  last_ = now;
  if (!counts) return;
  if (step_ == Step::found) {
    if (seconds_ >= kTrustedS) go_to(depth_, Step::base);
  } else if (bytes_ >= kTrialBytes && seconds_ >= kTrialS) {
    judge(static_cast<double>(bytes_) / seconds_);
  }
}

void DepthFinder::judge(double bytes_per_s) {
  const bool better = step_ == Step::base || bytes_per_s >= best_bytes_per_s_ * kWorthMore;
  switch (step_) {
    case Step::base:
    case Step::up:
      if (better) {
        climbed_ = step_ == Step::up;
        best_depth_ = depth_;
        best_bytes_per_s_ = bytes_per_s;
        if (depth_ * 2 <= kMost) return go_to(depth_ * 2, Step::up);
      }
      // One that climbed knows that the half was slower.
      if (climbed_ || best_depth_ / 2 < kLeast) return settle(best_depth_);
      return go_to(best_depth_ / 2, Step::down);
    case Step::down:
      if (bytes_per_s < best_bytes_per_s_ * kWorthLess) return settle(best_depth_);
      best_depth_ = depth_;
      if (depth_ / 2 < kLeast) return settle(depth_);
      return go_to(depth_ / 2, Step::down);
    case Step::found:
      return;
  }
}

void DepthFinder::go_to(int depth, Step step) {
  to_skip_ = depth > depth_ ? depth : depth_;
  depth_ = depth;
  step_ = step;
  bytes_ = 0;
  seconds_ = 0;
}

void DepthFinder::settle(int depth) { go_to(depth, Step::found); }

}  // namespace sluice::io
