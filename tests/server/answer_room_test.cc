// A request's answers, and what they tell of their tokens, are bounded by the memory for them.
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
  bool check(bool stream, bool wanted, bool echo = false) {
    const auto checked = check_answer_room(generation_, {stream, wanted, echo, "logprobs"}, model_);
    param_ = checked ? "" : checked.error().param;
    return checked.has_value();
  }
  ServedModel model_;
  Generation generation_;
  std::string param_;  // that was at fault
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

TEST_F(AnswerRoom, StreamsNeedItForTheirPromptsAlone) {
  EXPECT_TRUE(check(true, true, true));
  EXPECT_EQ(generation_.max_new, 4000u);
  generation_.prompt_log_probabilities = true;
  generation_.prompts = {std::vector<std::int32_t>(100, 1)};
  EXPECT_TRUE(check(true, true, true));
  generation_.choices = 2;
  EXPECT_FALSE(check(true, true, true));
  EXPECT_FALSE(check(true, false, true));
  EXPECT_EQ(param_, "logprobs");
}

TEST_F(AnswerRoom, AnswersThatTellNothingNeedLittle) {
  constexpr std::size_t kFitting = 100 * told_bytes(2) / kAnswerTokenBytes;
  generation_.log_probabilities.reset();
  generation_.max_new = kFitting;
  EXPECT_TRUE(check(false, true));
  EXPECT_FALSE(check(false, true, true)) << "with the prompt before it";
  EXPECT_EQ(param_, "max_tokens");
  generation_.choices = 2;
  EXPECT_FALSE(check(false, true));
  EXPECT_EQ(param_, "n");
  EXPECT_TRUE(check(true, true));
  EXPECT_EQ(generation_.max_new, kFitting);
  EXPECT_TRUE(check(false, false));
  EXPECT_EQ(generation_.max_new, kFitting / 2);
}

}  // namespace
}  // namespace sluice::server
