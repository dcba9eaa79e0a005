// What an answer may tell of its tokens is bounded by the memory that is kept for it.
#include <gtest/gtest.h>

#include "server/request_parts.h"

namespace sluice::server {
namespace {

class AnswerRoom : public ::testing::Test {
 protected:
  AnswerRoom() {
    model_.told_bytes = 100 * told_bytes(2);
    generation_.prompts = {{1, 2, 3}};
    generation_.max_new = 4000;
    generation_.log_probabilities = 2;
  }
  bool check(bool stream, bool wanted) {
    return check_answer_room(generation_, stream, wanted, model_, "logprobs").has_value();
  }
  ServedModel model_;
  Generation generation_;
};

TEST_F(AnswerRoom, MoreThanItHasIsRefusedIfItWasAskedFor) {
  EXPECT_FALSE(check(false, true));
  EXPECT_EQ(generation_.max_new, 4000u);
  generation_.max_new = 100;
  EXPECT_TRUE(check(false, true));
  generation_.max_new = 101;
  EXPECT_FALSE(check(false, true));
}

TEST_F(AnswerRoom, AnAnswerOfAnyLengthIsAsLongAsFits) {
  EXPECT_TRUE(check(false, false));
  EXPECT_EQ(generation_.max_new, 100u);
  generation_.choices = 3;
  EXPECT_TRUE(check(false, false));
  EXPECT_EQ(generation_.max_new, 33u);
  generation_.prompt_log_probabilities = true;
  generation_.prompts.push_back({4, 5});
  EXPECT_TRUE(check(false, false));
  EXPECT_EQ(generation_.max_new, (33u - 5) / 2);
  generation_.choices = 40;  // there is not even room for the prompts
  EXPECT_FALSE(check(false, false));
}

TEST_F(AnswerRoom, StreamsAndAnswersThatTellNothingNeedNone) {
  EXPECT_TRUE(check(true, true));
  generation_.log_probabilities.reset();
  EXPECT_TRUE(check(false, true));
  EXPECT_EQ(generation_.max_new, 4000u);
}

}  // namespace
}  // namespace sluice::server
