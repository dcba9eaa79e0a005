#include "engine/drafter.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

using Ids = std::vector<std::int32_t>;

Ids guess(const Ids& text, std::size_t most) {
  Drafter drafter(text.size());
  for (const std::int32_t id : text) drafter.push(id);
  Ids found;
  drafter.guess(most, found);
  return found;
}

TEST(Drafter, GoesOnAsTheTextDidBefore) {
  EXPECT_EQ(guess({1, 2, 3, 4, 5, 1, 2}, 2), (Ids{3, 4}));
  EXPECT_EQ(guess({1, 2, 3, 4, 5, 1, 2}, 5), (Ids{3, 4, 5, 1, 2}));
}

TEST(Drafter, GoesRoundInWhatComesRound) {
  EXPECT_EQ(guess({7, 7, 7}, 3), (Ids{7, 7, 7}));
  EXPECT_EQ(guess({1, 2, 3, 1, 2}, 7), (Ids{3, 1, 2, 3, 1, 2, 3}));
}

TEST(Drafter, KnowsNothingOfWhatIsNew) {
  EXPECT_EQ(guess({}, 4), Ids{});
  EXPECT_EQ(guess({1}, 4), Ids{});
  EXPECT_EQ(guess({1, 1}, 4), Ids{});
  EXPECT_EQ(guess({1, 2, 3, 2}, 4), Ids{}) << "one token alone says too little";
  EXPECT_EQ(guess({1, 2, 3, 1, 2}, 0), Ids{});
}

TEST(Drafter, TakesThePlaceThatIsMostLikeIt) {
  // "2 3" stood before 9 last, but "1 2 3" before 8.
  EXPECT_EQ(guess({1, 2, 3, 8, 5, 2, 3, 9, 1, 2, 3}, 1), Ids{8});
  EXPECT_EQ(guess({1, 2, 8, 1, 2, 9, 1, 2}, 1), Ids{9}) << "of equals the latest";
}

constexpr std::size_t kMostGuesses = 8;

/// Passes on a machine where one without drafts takes a second, and each draft `cost` more; of the
/// drafts the first `right` are. Returns how many drafts the pass had, and adds up tokens and
/// seconds, without those that it was held up.
struct Machine {
  DraftJudge judge = {};
  double tokens = 0;
  double seconds = 0;

  std::size_t pass(double cost, std::size_t right, double held_up_s = 0) {
    const std::size_t drafts = judge.drafts(kMostGuesses);
    const std::size_t accepted = std::min(drafts, right);
    const double took = 1 + cost * static_cast<double>(drafts);
    judge.judge(drafts, accepted, took + held_up_s);
    tokens += 1 + static_cast<double>(accepted);
    seconds += took;
    return drafts;
  }
};

TEST(DraftJudge, ComparesWithPassesWithoutFirst) {
  Machine machine;
  EXPECT_EQ(machine.pass(0, 0), 0u);
  EXPECT_EQ(machine.pass(0, 0), 0u);
  EXPECT_GT(machine.pass(0, 0), 0u);
}

TEST(DraftJudge, IsNotTakenInByAFirstPassThatIsSlow) {
  Machine machine;
  machine.pass(0.5, 0, 5);
  for (int pass = 0; pass < 200; ++pass) machine.pass(0.5, 0);
  EXPECT_LT(machine.seconds / machine.tokens, 1.04);
}

TEST(DraftJudge, IsNotTakenInByPassesThatAreHeldUp) {
  Machine machine;
  for (int pass = 0; pass < 300; ++pass) machine.pass(0.5, 0, pass % 60 == 10 ? 60 : 0);
  EXPECT_LT(machine.seconds / machine.tokens, 1.04);
  Machine lucky;  // where drafts pay all the same
  for (int pass = 0; pass < 300; ++pass) lucky.pass(0.1, kMostGuesses, pass % 60 == 10 ? 60 : 0);
  EXPECT_GT(lucky.tokens / lucky.seconds, 3.5);
}

TEST(DraftJudge, TakesAllThatThereAreWhereTheyAreRight) {
  Machine machine;
  std::size_t with_all = 0;
  for (int pass = 0; pass < 200; ++pass) {
    if (machine.pass(0.1, kMostGuesses) == kMostGuesses) ++with_all;
  }
  EXPECT_GT(with_all, 160u);
  EXPECT_GT(machine.tokens / machine.seconds, 4.0) << "9 tokens in 1.8 s would be 5";
}

TEST(DraftJudge, LosesLittleWhereTheyAreWrong) {
  Machine machine;
  for (int pass = 0; pass < 200; ++pass) machine.pass(0.3, 0);
  EXPECT_LT(machine.seconds / machine.tokens, 1.03);
}

TEST(DraftJudge, LosesLittleWhereTheyCostAsMuchAsAPass) {
  Machine machine;
  for (int pass = 0; pass < 200; ++pass) machine.pass(1, pass % 2 == 0 ? 1 : 0);
  EXPECT_LT(machine.seconds / machine.tokens, 1.03);
}

TEST(DraftJudge, TakesFewWhereOnlyTheFirstAreRight) {
  Machine machine;
  for (int pass = 0; pass < 40; ++pass) machine.pass(0.35, 1);
  for (int pass = 0; pass < 40; ++pass) EXPECT_LE(machine.pass(0.35, 1), 2u);
  EXPECT_LT(machine.seconds / machine.tokens, 0.9);
}

TEST(DraftJudge, FindsOutThatThingsChanged) {
  Machine machine;
  for (int pass = 0; pass < 100; ++pass) machine.pass(0.3, 0);
  std::size_t drafted = 0;
  for (int pass = 0; pass < 600; ++pass) drafted += machine.pass(0.02, kMostGuesses) > 0 ? 1 : 0;
  EXPECT_GT(drafted, 200u) << "one draft now and then is enough to see it";
}

}  // namespace
}  // namespace sluice::engine
