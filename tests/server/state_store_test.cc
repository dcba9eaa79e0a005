// Which copies of sequences stay when room is short.
#include "server/state_store.h"

#include <gtest/gtest.h>

#include "server/saved_states.h"

namespace sluice::server {
namespace {

class SavedSequences : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = engine::Engine::open(saving_options(64));
    ASSERT_TRUE(opened) << opened.error().message;
    engine_ = std::move(*opened);
    sequence_ = std::move(*engine_->new_sequence());
    ASSERT_TRUE(engine_->feed(*sequence_, numbered(8, 1)));
    StateStore one(16 * kMiB, engine_->ledger());
    ASSERT_TRUE(one.save(*sequence_, numbered(40, 1), kLogits));
    bytes_ = one.bytes();
  }

  /// With room for so many.
  std::unique_ptr<StateStore> store(std::uint64_t count) {
    return std::make_unique<StateStore>(count * bytes_, engine_->ledger());
  }
  /// Of the prompt of 40 ids from `first` on, as many as are known.
  static std::size_t known(StateStore& store, std::int32_t first, std::size_t of = 40) {
    const StateStore::Shared found = store.find(numbered(of, first), 0);
    return found ? found->ids.size() : 0;
  }

  // What the sequence holds is nothing to the store, which goes by the ids.
  void keep(StateStore& store, std::int32_t first) {
    EXPECT_TRUE(store.save(*sequence_, numbered(40, first), kLogits));
  }
  void keep_part(StateStore& store, std::int32_t first, std::size_t ids) {
    EXPECT_TRUE(store.save_part(*sequence_, numbered(40, first), ids));
  }

  const std::vector<float> kLogits = {1.0F};
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<model::SequenceState> sequence_;
  std::uint64_t bytes_ = 0;
};

TEST_F(SavedSequences, TheTwoLongestPartsOfAPromptStay) {
  const auto all = store(8);
  for (const std::size_t ids : {8, 16, 24, 32}) keep_part(*all, 100, ids);
  EXPECT_EQ(all->count(), 2u);
  EXPECT_EQ(known(*all, 100), 32u);
  EXPECT_EQ(known(*all, 100, 30), 24u) << "another tail";
  EXPECT_EQ(known(*all, 100, 20), 0u);
  keep(*all, 100);
  EXPECT_EQ(all->count(), 3u) << "they hurt nobody";
}

TEST_F(SavedSequences, PartsTakeNoMoreFromOthersThanTheWholePrompt) {
  const auto all = store(3);
  for (const std::int32_t first : {200, 300, 400}) keep(*all, first);
  for (const std::size_t ids : {8, 16, 24, 32}) keep_part(*all, 100, ids);
  EXPECT_EQ(all->count(), 3u) << "one part, in the place of the oldest";
  EXPECT_EQ(known(*all, 100), 32u);
  keep(*all, 100);
  EXPECT_EQ(known(*all, 100), 40u);
  EXPECT_EQ(known(*all, 400), 40u);
  EXPECT_EQ(known(*all, 300), 40u);
  EXPECT_EQ(known(*all, 200), 0u);
}

TEST_F(SavedSequences, TheLongestPartOfAWholePromptGoesFirst) {
  const auto all = store(4);
  keep(*all, 200);
  for (const std::size_t ids : {8, 16}) keep_part(*all, 100, ids);
  keep(*all, 100);
  EXPECT_EQ(all->count(), 4u);
  keep(*all, 300);
  EXPECT_EQ(known(*all, 200), 40u);
  EXPECT_EQ(known(*all, 100, 20), 8u) << "it serves more tails than the longer one";
  keep(*all, 400);
  keep(*all, 500);
  EXPECT_EQ(known(*all, 100, 20), 8u) << "it was used lately";
}

TEST_F(SavedSequences, APartThatServesAnotherPromptIsKeptLikeAWholeOne) {
  const auto all = store(2);
  keep_part(*all, 100, 16);
  Ids other = numbered(40, 100);
  for (std::size_t tail = 20; tail < other.size(); ++tail) {
    other[tail] = 7;
    ASSERT_EQ(all->find(other, 0)->ids.size(), 16u) << tail;
    EXPECT_TRUE(all->save_part(*sequence_, other, 24));
    EXPECT_TRUE(all->save(*sequence_, other, kLogits));
  }
  const auto again = store(2);
  keep(*again, 200);
  keep_part(*again, 100, 16);
  EXPECT_EQ(known(*again, 100), 16u) << "the same prompt";
  keep_part(*again, 100, 32);
  keep(*again, 100);
  EXPECT_EQ(known(*again, 200), 40u);
}

TEST_F(SavedSequences, ThePartOfAPromptThatWasGivenUpIsOneAmongOthers) {
  const auto all = store(2);
  keep(*all, 200);
  keep_part(*all, 100, 32);
  keep(*all, 300);
  EXPECT_EQ(known(*all, 200), 0u);
  EXPECT_EQ(known(*all, 100), 32u) << "nothing else is left of it";
}

TEST_F(SavedSequences, NoRoomIsNoError) {
  const auto all = store(0);
  EXPECT_FALSE(all->save_part(*sequence_, numbered(40, 1), 8));
}

}  // namespace
}  // namespace sluice::server
