#include "server/status_board.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

double pace(const StatusBoard& board) { return board.status().seconds_per_token.value_or(-1); }

TEST(StatusBoard, ThePaceFollowsTheNewestTokens) {
  StatusBoard board(9);
  board.begin_task("task", 1, 100);
  board.begin_decode(0);
  board.count_token(std::nullopt, true);
  EXPECT_EQ(pace(board), -1);
  board.count_token(2.0, true);
  EXPECT_DOUBLE_EQ(pace(board), 2.0);
  board.count_token(1.0, true);
  EXPECT_DOUBLE_EQ(pace(board), 1.8);
  EXPECT_DOUBLE_EQ(board.status().left_s.value_or(-1), 1.8 * 97);
}

TEST(StatusBoard, TokensOfOnePassTellThePaceTogether) {
  StatusBoard board(9);
  board.begin_task("task", 1, 1000);
  board.begin_decode(0);
  board.count_token(std::nullopt, true);
  for (int pass = 0; pass < 60; ++pass) {
    board.count_token(4.0, true);
    for (int draft = 0; draft < 3; ++draft) board.count_token(0.0, false);
    EXPECT_GT(pace(board), 0.99) << "never as if tokens cost nothing";
  }
  EXPECT_NEAR(pace(board), 1.0, 0.01);
}

}  // namespace
}  // namespace sluice::server
