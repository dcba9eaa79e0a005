// Memory pressure: what is given back, and when. That no bit depends on it, SameBits tests.
#include "engine/pressure.h"

#include "base/size.h"
#include "engine/golden.h"

namespace sluice::engine {
namespace {

/// Shows what it is told to.
class FakeMemory final : public MemorySource {
 public:
  FakeMemory(MemorySigns& signs, int& looks, Clock::time_point& now)
      : signs_(signs), looks_(looks), now_(now) {}
  MemorySigns look() override {
    ++looks_;
    return signs_;
  }
  Clock::time_point now() override { return now_; }

 private:
  MemorySigns& signs_;
  int& looks_;
  Clock::time_point& now_;
};

class Guarded : public ::testing::Test {
 protected:
  PressureGuard::Step after(double seconds) {
    now_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    return guard_.check(gone_, kept_);
  }

  MemorySigns signs_ = {8 * kGiB, kGiB, 0, 0};
  int looks_ = 0;
  std::uint64_t gone_ = 0;
  std::uint64_t kept_ = 4 * kGiB;
  Clock::time_point now_;
  PressureGuard guard_{std::make_unique<FakeMemory>(signs_, looks_, now_), 8 * kGiB};
};

TEST_F(Guarded, LooksFiveTimesASecondWhileThereIsPlenty) {
  for (int i = 0; i < 100; ++i) {
    const auto step = after(0.02);
    EXPECT_EQ(step.give_back + step.take_back, 0u);
  }
  EXPECT_GE(looks_, 9);
  EXPECT_LE(looks_, 11);
}

TEST_F(Guarded, GivesBackWhatOthersTookAndAreAboutToTake) {
  after(1);
  signs_.available_bytes = 300 * kMiB;  // others took the rest
  EXPECT_EQ(after(1).give_back, kept_);
  kept_ = 0;
  gone_ = 4 * kGiB;
  signs_.available_bytes = 4 * kGiB;
  EXPECT_EQ(after(1).give_back, 0u);
  kept_ = 2 * kGiB;
  signs_.available_bytes -= 2 * kGiB + 900 * kMiB;
  const auto step = after(1);
  EXPECT_GT(step.give_back, kGiB) << "as much again may come";
  EXPECT_LE(step.give_back, kept_);
}

TEST_F(Guarded, IsNotAlarmedByItsOwnGrowth) {
  after(1);
  signs_.available_bytes -= 7 * kGiB;
  signs_.resident_bytes += 7 * kGiB;
  EXPECT_EQ(after(1).give_back, 0u);
}

TEST_F(Guarded, GivesBackAPartWhereTasksWaitForMemory) {
  signs_.available_bytes = 4 * guard_.reserve();
  after(1);
  signs_.stalled_s += 0.5;
  EXPECT_EQ(after(1).give_back, kept_ / 16);
  EXPECT_EQ(after(1).give_back, 0u) << "it helped";
  signs_.major_faults += 1000;
  EXPECT_EQ(after(1).give_back, kept_ / 16);
  signs_.available_bytes = 64 * kGiB;
  signs_.stalled_s += 0.9;
  after(1);
  signs_.stalled_s += 0.9;
  EXPECT_EQ(after(1).give_back, 0u) << "with so much free it is not our doing";
}

TEST_F(Guarded, TakesBackSlowlyAndOnlyAfterCalm) {
  after(1);
  signs_.available_bytes = 10 * kMiB;
  EXPECT_GT(after(1).give_back, 0u);
  gone_ = 3 * kGiB;
  signs_.available_bytes = 4 * kGiB;
  EXPECT_EQ(after(0.5).take_back, 0u) << "it was short just now";
  EXPECT_EQ(after(1.2).take_back, 0u);
  const auto step = after(1.2);
  EXPECT_GT(step.take_back, kGiB);
  EXPECT_LT(step.take_back, 2 * kGiB);
  gone_ = 10 * kMiB;
  EXPECT_EQ(after(1.2).take_back, gone_);
  gone_ = 0;
  EXPECT_EQ(after(1.2).take_back, 0u);
}

TEST(Pressure, TheSystemAnswers) {
  const MemorySigns signs = system_memory(true)->look();
  EXPECT_GT(signs.available_bytes, 0u);
  EXPECT_GT(signs.resident_bytes, kMiB);
  EXPECT_GE(signs.stalled_s, 0);
}

}  // namespace
}  // namespace sluice::engine
