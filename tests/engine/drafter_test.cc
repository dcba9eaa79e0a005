#include "engine/drafter.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

std::vector<std::int32_t> guess(const std::vector<std::int32_t>& text, std::size_t most) {
  Drafter drafter(text.size());
  for (const std::int32_t id : text) drafter.push(id);
  const auto found = drafter.guess(most);
  return {found.begin(), found.end()};
}

using Ids = std::vector<std::int32_t>;

TEST(Drafter, GoesOnAsTheTextDidBefore) {
  EXPECT_EQ(guess({1, 2, 3, 4, 5, 1, 2}, 2), (Ids{3, 4}));
  EXPECT_EQ(guess({1, 2, 3, 4, 5, 1, 2}, 8), (Ids{3, 4, 5, 1, 2})) << "no further than the text";
  EXPECT_EQ(guess({7, 7, 7}, 3), (Ids{7})) << "also over itself";
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

TEST(DraftJudge, RestsWhereDraftsDoNotPay) {
  DraftJudge judge;
  judge.judge(0, 0, 1.0);
  for (std::size_t pass = 0; pass < DraftJudge::kTrial; ++pass) {
    EXPECT_TRUE(judge.may_draft());
    judge.judge(4, pass % 2, 1.6);  // 1.07 s a token
  }
  for (std::size_t pass = 0; pass < DraftJudge::kRest; ++pass) {
    EXPECT_FALSE(judge.may_draft());
    judge.judge(0, 0, 1.0);
  }
  EXPECT_TRUE(judge.may_draft());
}

TEST(DraftJudge, GoesOnWhereTheyDo) {
  DraftJudge judge;
  judge.judge(0, 0, 1.0);
  for (std::size_t pass = 0; pass < 10 * DraftJudge::kTrial; ++pass) {
    EXPECT_TRUE(judge.may_draft());
    judge.judge(4, pass % 2, 1.2);  // 0.8 s a token
  }
}

TEST(DraftJudge, LooksForSomethingToCompareWith) {
  DraftJudge judge;
  for (std::size_t pass = 0; pass < DraftJudge::kTrial; ++pass) judge.judge(4, 0, 1.5);
  for (std::size_t pass = 0; pass < DraftJudge::kComparison; ++pass) {
    EXPECT_FALSE(judge.may_draft());
    judge.judge(0, 0, 1.0);
  }
  for (std::size_t pass = 0; pass < DraftJudge::kTrial; ++pass) {
    EXPECT_TRUE(judge.may_draft());
    judge.judge(4, 0, 1.5);
  }
  EXPECT_FALSE(judge.may_draft());
}

}  // namespace
}  // namespace sluice::engine
