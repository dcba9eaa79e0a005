#include "weights/expert_banks.h"

#include <thread>

#include "weights/banks.h"
#include "weights/expert_reads.h"

namespace sluice::weights {
namespace {

TEST(ExpertBanks, GiveEveryExpertWhateverTheSlots) {
  io::ReadFaults faults;
  faults.max_delay = std::chrono::microseconds(50);
  PatternModel model(faults);
  for (const auto& [wave, bank] : {std::pair{1, 0}, {1, 1}, {2, 3}, {4, 4}, {1, 12}}) {
    SCOPED_TRACE(wave * 100 + bank);
    MemoryLedger ledger(kPlenty);
    const Placement placement =
        placement_with(model, static_cast<std::size_t>(wave), static_cast<std::size_t>(bank));
    const auto banks = ExpertBanks::create(model.blocks, placement, *model.reader, ledger);
    ASSERT_TRUE(banks);
    std::mt19937 random(7);
    for (int pass = 0; pass < 60; ++pass) {
      for (const std::size_t layer : {1u, 2u}) {
        ASSERT_TRUE(use(**banks, model.blocks, layer, random_ids(random, 12)));
      }
    }
  }
}

TEST(ExpertBanks, KeepAllExpertsWhenThereIsRoom) {
  PatternModel model;
  MemoryLedger ledger(kPlenty);
  const Placement placement = placement_with(model, 1, 12);
  const auto banks = ExpertBanks::create(model.blocks, placement, *model.reader, ledger);
  ASSERT_TRUE(banks);
  std::set<std::int32_t> all;
  for (std::int32_t id = 0; id < 12; ++id) all.insert(id);
  ASSERT_TRUE(use(**banks, model.blocks, 1, all));
  ASSERT_TRUE(use(**banks, model.blocks, 1, all));
  EXPECT_EQ((*banks)->statistics().misses, 12u);
  EXPECT_EQ((*banks)->statistics().hits, 12u);
}

TEST(ExpertBanks, KeepTheMostUsedAgainstPassersBy) {
  PatternModel model;
  MemoryLedger ledger(kPlenty);
  const Placement placement = placement_with(model, 2, 2);
  const auto banks = ExpertBanks::create(model.blocks, placement, *model.reader, ledger);
  ASSERT_TRUE(banks);
  for (int pass = 0; pass < 5; ++pass) ASSERT_TRUE(use(**banks, model.blocks, 1, {3, 4}));
  for (std::int32_t other = 5; other < 12; ++other) {
    ASSERT_TRUE(use(**banks, model.blocks, 1, {other}));
  }
  const std::uint64_t hits = (*banks)->statistics().hits;
  ASSERT_TRUE(use(**banks, model.blocks, 1, {3, 4}));
  EXPECT_EQ((*banks)->statistics().hits, hits + 2);
}

TEST(ExpertBanks, AnUnreadableExpertIsAnErrorThatNamesIt) {
  io::ReadFaults faults;
  io::ReadFault fault;
  fault.from = 2;
  fault.count = 1;
  faults.faults.push_back(fault);
  PatternModel model(faults);
  MemoryLedger ledger(kPlenty);
  const Placement placement = placement_with(model, 1, 2);
  const auto banks = ExpertBanks::create(model.blocks, placement, *model.reader, ledger);
  ASSERT_TRUE(banks);
  const Status failed = use(**banks, model.blocks, 1, {1, 5, 7, 9});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::drive);
  EXPECT_NE(failed.error().message.find("layer 1, expert"), std::string::npos)
      << failed.error().message;
  (*banks)->abort();
  EXPECT_TRUE(use(**banks, model.blocks, 1, {1, 5, 7, 9}));
  EXPECT_TRUE(use(**banks, model.blocks, 2, {0, 11}));
}

/// Waits until all guesses have come: their bytes are counted then.
void wait_for_guesses(const ExpertBanks& banks, std::uint64_t bytes) {
  while (banks.statistics().guessed_bytes < bytes) std::this_thread::yield();
}

TEST(ExpertBanks, GuessesChangeNothingButWhenBytesAreRead) {
  io::ReadFaults faults;
  faults.max_delay = std::chrono::microseconds(80);
  PatternModel model(faults);
  std::uint64_t used = 0;
  for (const auto& [wave, bank] : {std::pair{1, 0}, {2, 0}, {4, 0}, {4, 2}, {1, 4}, {6, 6}}) {
    SCOPED_TRACE(wave * 100 + bank);
    MemoryLedger ledger(kPlenty);
    const Placement placement =
        placement_with(model, static_cast<std::size_t>(wave), static_cast<std::size_t>(bank));
    const auto banks = ExpertBanks::create(model.blocks, placement, *model.reader, ledger);
    ASSERT_TRUE(banks);
    std::mt19937 random(11);
    for (int pass = 0; pass < 80; ++pass) {
      for (const std::size_t layer : {1u, 2u}) {
        const auto ids = random_ids(random, 6);
        // Sometimes right, sometimes wrong, sometimes for a layer that does not come next.
        const auto guessed = pass % 3 == 0 ? ids : random_ids(random, 8);
        (*banks)->guess(pass % 7 == 0 ? 3 - layer : layer,
                        {std::vector(guessed.begin(), guessed.end())});
        ASSERT_TRUE(use(**banks, model.blocks, layer, ids));
      }
    }
    const ExpertStatistics statistics = (*banks)->statistics();
    EXPECT_LE(statistics.guesses_used, statistics.guesses);
    EXPECT_LE(statistics.guessed_bytes_used, statistics.guessed_bytes);
    used += statistics.guesses_used;
  }
  EXPECT_GT(used, 0u);
}

TEST(ExpertBanks, AGuessThatWasRightIsReadOnce) {
  PatternModel model;
  MemoryLedger ledger(kPlenty);
  const auto banks =
      ExpertBanks::create(model.blocks, placement_with(model, 4, 0), *model.reader, ledger);
  ASSERT_TRUE(banks);
  const std::uint64_t one = model.blocks.expert_layers[1].block_bytes();
  (*banks)->guess(1, std::vector<std::int32_t>{7, 3});
  wait_for_guesses(**banks, 2 * one);
  ASSERT_TRUE(use(**banks, model.blocks, 1, {3, 5}));
  const ExpertStatistics statistics = (*banks)->statistics();
  EXPECT_EQ(statistics.hits, 1u);
  EXPECT_EQ(statistics.misses, 1u);
  EXPECT_EQ(statistics.guesses, 2u);
  EXPECT_EQ(statistics.guesses_used, 1u);
  EXPECT_EQ(statistics.guessed_bytes, 2 * one);
  EXPECT_EQ(statistics.guessed_bytes_used, one);
  const auto experts = static_cast<std::size_t>(io::Purpose::expert);
  EXPECT_EQ(model.reader->statistics().requested_bytes[experts], 3 * one);
}

TEST(ExpertBanks, AGuessTakesNoRoomFromWhatIsUsedMore) {
  PatternModel model;
  MemoryLedger ledger(kPlenty);
  const auto banks =
      ExpertBanks::create(model.blocks, placement_with(model, 1, 2), *model.reader, ledger);
  ASSERT_TRUE(banks);
  for (int pass = 0; pass < 3; ++pass) ASSERT_TRUE(use(**banks, model.blocks, 1, {3, 4}));
  (*banks)->guess(1, std::vector<std::int32_t>{5, 6, 7});
  EXPECT_EQ((*banks)->statistics().guesses, 0u) << "one wave slot is left to what is needed";
  const std::uint64_t hits = (*banks)->statistics().hits;
  ASSERT_TRUE(use(**banks, model.blocks, 1, {3, 4}));
  EXPECT_EQ((*banks)->statistics().hits, hits + 2);
}

TEST(ExpertBanks, AGuessThatCannotBeReadIsNoErrorUntilItIsNeeded) {
  io::ReadFaults faults;
  io::ReadFault fault;
  fault.count = 1;
  faults.faults.push_back(fault);
  PatternModel model(faults);
  MemoryLedger ledger(kPlenty);
  const auto banks =
      ExpertBanks::create(model.blocks, placement_with(model, 4, 0), *model.reader, ledger);
  ASSERT_TRUE(banks);
  (*banks)->guess(1, std::vector<std::int32_t>{7, 3});  // the read of 7 fails
  wait_for_guesses(**banks, model.blocks.expert_layers[1].block_bytes());
  EXPECT_TRUE(use(**banks, model.blocks, 1, {3, 5}));
  EXPECT_TRUE(use(**banks, model.blocks, 1, {7}));  // read again
}

TEST(ExpertBanks, StartFromWhatWasUsedBefore) {
  PatternModel model;
  MemoryLedger ledger(kPlenty);
  const Placement placement = placement_with(model, 2, 2);
  const auto first = ExpertBanks::create(model.blocks, placement, *model.reader, ledger);
  ASSERT_TRUE(first);
  for (int pass = 0; pass < 5; ++pass) ASSERT_TRUE(use(**first, model.blocks, 1, {3, 4}));
  const auto second = ExpertBanks::create(model.blocks, placement, *model.reader, ledger);
  ASSERT_TRUE(second);
  (*second)->start_from((*first)->use());
  ASSERT_TRUE(use(**second, model.blocks, 1, {8, 9}));  // into the empty bank
  ASSERT_TRUE(use(**second, model.blocks, 1, {3, 4}));  // and out again
  for (std::int32_t other = 5; other < 8; ++other) {
    ASSERT_TRUE(use(**second, model.blocks, 1, {other}));
  }
  const std::uint64_t hits = (*second)->statistics().hits;
  ASSERT_TRUE(use(**second, model.blocks, 1, {3, 4}));
  EXPECT_EQ((*second)->statistics().hits, hits + 2);
}

TEST(ExpertBanks, JoinPartsThatTouchIntoOneRead) {
  PatternModel model;
  const Blocks& blocks = model.blocks;
  EXPECT_EQ(reads_of(blocks.expert_layers[1], blocks.expert_layers[1].experts[5]).size(), 1u);
  EXPECT_EQ(reads_of(blocks.expert_layers[2], blocks.expert_layers[2].experts[5]).size(), 2u);
}

}  // namespace
}  // namespace sluice::weights
