// The queue depth that a drive wants, found in made-up time.
#include "io/depth_finder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>

namespace sluice::io {
namespace {

constexpr std::uint64_t kRead = std::uint64_t{4} << 20;

/// Reads for `seconds` from a drive whose speed depends on the depth.
class Reading {
 public:
  explicit Reading(std::function<double(int)> bytes_per_s) : speed_(std::move(bytes_per_s)) {}

  void set_speed(std::function<double(int)> bytes_per_s) { speed_ = std::move(bytes_per_s); }

  int run(double seconds, bool full = true) {
    for (const double end = now_ + seconds; now_ < end;) {
      now_ += static_cast<double>(kRead) / speed_(finder_.depth());
      finder_.report(kRead, full,
                     Clock::time_point() + std::chrono::duration_cast<Clock::duration>(
                                               std::chrono::duration<double>(now_)));
      most_ = std::max(most_, finder_.depth());
    }
    return finder_.depth();
  }
  int most() const { return most_; }

 private:
  DepthFinder finder_;
  std::function<double(int)> speed_;
  double now_ = 0;
  int most_ = 0;
};

/// A drive that gives `most` from `depth` reads on, and a share of it with fewer.
std::function<double(int)> full_from(int depth, double most) {
  return [=](int now) { return most * std::min(1.0, static_cast<double>(now) / depth); };
}

TEST(DepthFinder, finds_the_smallest_depth_that_gives_full_speed) {
  for (const int wanted : {4, 8, 16, 32, 64}) {
    EXPECT_EQ(Reading(full_from(wanted, 3e9)).run(5), wanted);
  }
}

TEST(DepthFinder, stays_within_its_bounds) {
  EXPECT_EQ(Reading(full_from(1, 3e9)).run(5), DepthFinder::kLeast);
  Reading hungry(full_from(1000, 3e9));
  EXPECT_EQ(hungry.run(5), DepthFinder::kMost);
  EXPECT_EQ(hungry.most(), DepthFinder::kMost);
}

TEST(DepthFinder, finds_it_on_slow_drives_too) {
  EXPECT_EQ(Reading(full_from(8, 100e6)).run(30), 8);
}

TEST(DepthFinder, a_drive_that_is_asked_for_little_keeps_its_depth) {
  EXPECT_EQ(Reading(full_from(64, 3e9)).run(20, false), DepthFinder::kStart);
}

TEST(DepthFinder, looks_again_after_a_while) {
  Reading reading(full_from(4, 3e9));
  EXPECT_EQ(reading.run(5), 4);
  reading.set_speed(full_from(32, 3e9));
  EXPECT_EQ(reading.run(5), 4);
  EXPECT_EQ(reading.run(2 * DepthFinder::kTrustedS), 32);
}

}  // namespace
}  // namespace sluice::io
