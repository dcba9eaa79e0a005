// Banks of experts that give memory back and take it again, also while guesses are on their way.
#include "weights/banks.h"

namespace sluice::weights {
namespace {

TEST(ExpertBanks, GiveMemoryBackAndTakeItAgain) {
  PatternModel model;
  MemoryLedger ledger(kPlenty);
  const Placement placement = placement_with(model, 2, 8);
  const auto banks = ExpertBanks::create(model.blocks, placement, *model.reader, ledger);
  ASSERT_TRUE(banks);
  const std::uint64_t charged = ledger.charged(Tenant::experts);
  std::mt19937 random(3);
  std::uint64_t gone = 0;
  for (int pass = 0; pass < 200; ++pass) {
    if (pass % 10 == 3) gone += (*banks)->shed(3 * placement.slot_bytes);
    if (pass % 10 == 8) gone -= (*banks)->regrow(2 * placement.slot_bytes);
    EXPECT_EQ((*banks)->statistics().gone_bytes, gone);
    EXPECT_EQ(ledger.charged(Tenant::experts), charged - gone);
    for (const std::size_t layer : {1u, 2u}) {
      ASSERT_TRUE(use(**banks, model.blocks, layer, random_ids(random, 12)));
    }
  }
  EXPECT_EQ(gone, 14 * placement.slot_bytes) << "all 16 were gone, two came back";
  EXPECT_EQ((*banks)->regrow(kPlenty), gone);
  EXPECT_EQ(ledger.charged(Tenant::experts), charged);
}

TEST(ExpertBanks, GiveBackTheLeastUsedFirst) {
  PatternModel model;
  MemoryLedger ledger(kPlenty);
  const Placement placement = placement_with(model, 2, 2);
  const auto banks = ExpertBanks::create(model.blocks, placement, *model.reader, ledger);
  ASSERT_TRUE(banks);
  ASSERT_TRUE(use(**banks, model.blocks, 1, {1, 2}));
  ASSERT_TRUE(use(**banks, model.blocks, 2, {3, 4}));
  for (int pass = 0; pass < 3; ++pass) {
    ASSERT_TRUE(use(**banks, model.blocks, 1, {1}));
    ASSERT_TRUE(use(**banks, model.blocks, 2, {4}));
  }
  EXPECT_EQ((*banks)->shed(2 * placement.slot_bytes), 2 * placement.slot_bytes);
  const std::uint64_t hits = (*banks)->statistics().hits;
  ASSERT_TRUE(use(**banks, model.blocks, 1, {1}));
  ASSERT_TRUE(use(**banks, model.blocks, 2, {4}));
  EXPECT_EQ((*banks)->statistics().hits, hits + 2);
}

/// Guesses, right and wrong, of this layer and of others; then the request.
Status guess_and_use(ExpertBanks& banks, const PatternModel& model, std::mt19937& random,
                     std::size_t layer) {
  const auto ids = random_ids(random, 6);
  const auto guessed = random() % 3 == 0 ? ids : random_ids(random, 8);
  banks.guess(random() % 7 == 0 ? 3 - layer : layer,
              std::vector<std::int32_t>(guessed.begin(), guessed.end()));
  return use(banks, model.blocks, layer, ids);
}

TEST(ShedBanks, GuessesOnTheirWayNeverLandInWhatWasGivenBack) {
  io::ReadFaults faults;
  faults.max_delay = std::chrono::microseconds(120);
  PatternModel model(faults);
  std::uint64_t shed = 0;
  std::uint64_t used = 0;
  for (const auto& [wave, bank] : {std::pair{2, 5}, {4, 1}, {4, 4}, {6, 12}}) {
    SCOPED_TRACE(wave * 100 + bank);
    MemoryLedger ledger(kPlenty);
    const Placement placement =
        placement_with(model, static_cast<std::size_t>(wave), static_cast<std::size_t>(bank));
    const auto banks = ExpertBanks::create(model.blocks, placement, *model.reader, ledger);
    ASSERT_TRUE(banks);
    const std::uint64_t charged = ledger.charged(Tenant::experts);
    std::mt19937 random(23);
    std::uint64_t gone = 0;
    const auto check = [&] {
      ASSERT_EQ((*banks)->statistics().gone_bytes, gone);
      ASSERT_EQ(ledger.charged(Tenant::experts), charged - gone);
    };
    for (int pass = 0; pass < 120; ++pass) {
      for (const std::size_t layer : {1u, 2u}) {
        // A guess is under way here: what is given back is never the slot that it is read into.
        if (random() % 2 == 0) {
          const auto early = random_ids(random, 8);
          (*banks)->guess(layer, std::vector<std::int32_t>(early.begin(), early.end()));
        }
        if (random() % 4 == 0) {
          const std::uint64_t freed = (*banks)->shed((1 + random() % 4) * placement.slot_bytes);
          gone += freed;
          shed += freed;
        }
        if (random() % 4 == 0) gone -= (*banks)->regrow(3 * placement.slot_bytes);
        check();
        ASSERT_TRUE(guess_and_use(**banks, model, random, layer));
      }
    }
    EXPECT_EQ((*banks)->regrow(kPlenty), gone);
    EXPECT_EQ(ledger.charged(Tenant::experts), charged);
    ASSERT_TRUE(guess_and_use(**banks, model, random, 1));
    used += (*banks)->statistics().guesses_used;
  }
  EXPECT_GT(shed, 0u);
  EXPECT_GT(used, 0u);
}

TEST(ShedBanks, AllBanksMayBeGoneWhileGuessesUseTheWaves) {
  PatternModel model;
  MemoryLedger ledger(kPlenty);
  const Placement placement = placement_with(model, 4, 6);
  const auto banks = ExpertBanks::create(model.blocks, placement, *model.reader, ledger);
  ASSERT_TRUE(banks);
  ASSERT_TRUE(use(**banks, model.blocks, 1, {1, 2, 3}));
  EXPECT_EQ((*banks)->shed(kPlenty), 12 * placement.slot_bytes);
  EXPECT_EQ((*banks)->shed(kPlenty), 0u) << "there is nothing left to give";
  (*banks)->guess(1, std::vector<std::int32_t>{7, 8, 9});
  EXPECT_EQ((*banks)->statistics().guesses, 2u) << "half of the wave slots";
  ASSERT_TRUE(use(**banks, model.blocks, 1, {1, 7, 8, 9}));
  EXPECT_EQ((*banks)->statistics().guesses_used, 2u);
  // Another takes the memory before it can be taken back: then it stays gone, and no harm is done.
  const std::uint64_t spare = ledger.available() - 2 * placement.slot_bytes;
  ASSERT_TRUE(ledger.charge(Tenant::program, spare));
  EXPECT_EQ((*banks)->regrow(kPlenty), 2 * placement.slot_bytes);
  ASSERT_TRUE(use(**banks, model.blocks, 1, {1, 2, 3, 4, 5, 6}));
  ledger.release(Tenant::program, spare);
  EXPECT_EQ((*banks)->regrow(kPlenty), 10 * placement.slot_bytes);
}

}  // namespace
}  // namespace sluice::weights
