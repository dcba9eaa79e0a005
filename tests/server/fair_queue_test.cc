// Turns: everybody's first before anybody's second.
#include "server/fair_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::server {
namespace {

TEST(FairQueue, GivesEachClientItsTurn) {
  FairQueue<int> queue(10);
  for (const int task : {1, 2, 3}) EXPECT_TRUE(queue.push("a", task));
  EXPECT_TRUE(queue.push("b", 4));
  EXPECT_TRUE(queue.push("c", 5));
  std::vector<int> order;
  while (const auto task = queue.pop()) order.push_back(*task);
  EXPECT_EQ(order, (std::vector<int>{1, 4, 5, 2, 3}));
}

TEST(FairQueue, KnowsEachPositionExactly) {
  FairQueue<int> queue(20);
  int next = 0;
  for (const char* client : {"a", "a", "b", "c", "b", "b", "d", "a", "c"})
    queue.push(client, next++);
  queue.pop();
  for (int task = 0; task < next; ++task) {
    FairQueue<int> copy = queue;
    std::optional<std::size_t> expected;
    for (std::size_t before = 0; const auto each = copy.pop(); ++before) {
      if (*each == task) expected = before;
    }
    EXPECT_EQ(queue.position(task), expected) << task;
  }
}

TEST(FairQueue, IsBounded) {
  FairQueue<int> queue(2);
  EXPECT_TRUE(queue.push("a", 1));
  EXPECT_TRUE(queue.push("b", 2));
  EXPECT_FALSE(queue.push("c", 3));
  EXPECT_TRUE(queue.remove(1));
  EXPECT_FALSE(queue.remove(1));
  EXPECT_TRUE(queue.push("c", 3));
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), 3);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

}  // namespace
}  // namespace sluice::server
