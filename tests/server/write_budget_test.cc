#include "server/write_budget.h"

#include <gtest/gtest.h>

#include <random>

namespace sluice::server {
namespace {

using std::chrono::milliseconds;

TEST(WriteBudget, NeverMoreThanTheRateAndOneState) {
  constexpr std::uint64_t kRate = 10'000;
  constexpr std::uint64_t kLargest = 50'000;
  std::mt19937_64 random(7);
  for (const int most_pause_ms : {1, 100, 10'000}) {
    const Clock::time_point start = Clock::time_point() + milliseconds(5);
    WriteBudget budget(kRate, start);
    Clock::time_point now = start;
    std::uint64_t written = 0;
    std::uint64_t passed_over = 0;
    for (int i = 0; i < 10'000; ++i) {
      now += milliseconds(random() % static_cast<std::uint64_t>(most_pause_ms + 1));
      const std::uint64_t bytes = 1 + random() % kLargest;
      if (budget.owes(now)) {
        ++passed_over;
        continue;
      }
      budget.spend(bytes);
      written += bytes;
      const double paid =
          static_cast<double>(kRate) * (WriteBudget::kAdvanceSeconds + seconds_between(start, now));
      ASSERT_LE(static_cast<double>(written), paid + static_cast<double>(kLargest));
    }
    const double paid =
        static_cast<double>(kRate) * (WriteBudget::kAdvanceSeconds + seconds_between(start, now));
    if (passed_over > 0) {
      EXPECT_GE(static_cast<double>(written), paid / 2) << "and not much less";
    }
    EXPECT_EQ(passed_over > 0, most_pause_ms < 10'000);
  }
}

TEST(WriteBudget, SaysWhenNothingIsOwedAnyMore) {
  const Clock::time_point start;
  WriteBudget budget(100, start);
  EXPECT_FALSE(budget.owes(start));
  budget.spend(250);
  EXPECT_FALSE(budget.owes(start)) << "half a minute is paid in advance";
  budget.spend(3000);
  EXPECT_TRUE(budget.owes(start));
  EXPECT_EQ(budget.seconds_owed(start + milliseconds(500)), 2.0);
  EXPECT_FALSE(budget.owes(start + milliseconds(2500)));
  budget.spend(50);
  EXPECT_EQ(budget.seconds_owed(start + milliseconds(2500)), 0.5);
}

TEST(WriteBudget, HasNoBoundWithoutARate) {
  WriteBudget budget(std::nullopt, Clock::time_point());
  budget.spend(std::uint64_t{1} << 60);
  EXPECT_FALSE(budget.owes(Clock::time_point()));
}

}  // namespace
}  // namespace sluice::server
