// Guessing stops by itself where most guesses are wrong, and is tried again.
#include "model/lookahead.h"

#include <gtest/gtest.h>

namespace sluice::model {
namespace {

weights::ExpertStatistics after(std::uint64_t guesses, std::uint64_t used) {
  weights::ExpertStatistics statistics;
  statistics.guesses = guesses;
  statistics.guesses_used = used;
  return statistics;
}

TEST(Lookahead, GuessesOnWhileMostGuessesAreRight) {
  Lookahead lookahead(4);
  for (std::uint64_t pass = 1; pass < 1000; ++pass) {
    EXPECT_EQ(lookahead.guesses(), 4u);
    lookahead.learn(after(32 * pass, 20 * pass));
  }
}

TEST(Lookahead, RestsWhereMostAreWrongAndTriesAgain) {
  Lookahead lookahead(4);
  std::uint64_t made = 0;
  for (int turn = 0; turn < 3; ++turn) {
    while (lookahead.guesses() > 0) {
      made += 32;
      lookahead.learn(after(made, made / 4));
      ASSERT_LE(made, 3 * Lookahead::kWindow);
    }
    EXPECT_EQ(made, static_cast<std::uint64_t>(turn + 1) * Lookahead::kWindow);
    for (std::size_t pass = 0; pass < Lookahead::kRest; ++pass) {
      EXPECT_EQ(lookahead.guesses(), 0u);
      lookahead.learn(after(made, made / 4));
    }
    EXPECT_EQ(lookahead.guesses(), 4u);
  }
}

TEST(Lookahead, JudgesByWhatIsNewNotByAllThatEverWas) {
  Lookahead lookahead(2);
  lookahead.learn(after(100'000, 100'000));
  lookahead.learn(after(100'000 + Lookahead::kWindow, 100'000));
  EXPECT_EQ(lookahead.guesses(), 0u);
}

TEST(Lookahead, OffIsOff) {
  Lookahead lookahead(0);
  lookahead.learn(after(0, 0));
  EXPECT_EQ(lookahead.guesses(), 0u);
}

}  // namespace
}  // namespace sluice::model
