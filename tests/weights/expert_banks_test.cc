#include "weights/expert_banks.h"

#include <random>
#include <set>

#include "weights/expert_reads.h"
#include "weights/pattern.h"

namespace sluice::weights {
namespace {

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 30;

Placement placement_with(const PatternModel& model, std::size_t wave, std::size_t bank) {
  Placement placement = place(model.blocks, *model.reader, {}, kPlenty).value();
  placement.wave_slots = wave;
  placement.bank_slots = {0, bank, bank};
  return placement;
}

/// Takes the experts of one request; each must come once, whole, with its own bytes.
Status use(ExpertBanks& banks, const Blocks& blocks, std::size_t layer,
           const std::set<std::int32_t>& ids) {
  const std::vector<std::int32_t> wanted(ids.begin(), ids.end());
  banks.begin(layer, wanted);
  std::set<std::int32_t> seen;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    SLUICE_ASSIGN(const ReadyExpert expert, banks.next());
    EXPECT_TRUE(seen.insert(expert.id).second);
    const ExpertLayer& experts = blocks.expert_layers[layer];
    const ExpertPlace& place = experts.experts[static_cast<std::size_t>(expert.id)];
    for (std::size_t part = 0; part < experts.parts; ++part) {
      EXPECT_TRUE(is_pattern(expert.part[part], place.offset[part], experts.part_bytes[part]));
    }
    banks.release(expert);
  }
  EXPECT_EQ(seen, ids);
  return {};
}

std::set<std::int32_t> random_ids(std::mt19937& random, std::size_t most) {
  std::set<std::int32_t> ids;
  const std::size_t count = 1 + random() % most;
  while (ids.size() < count) ids.insert(static_cast<std::int32_t>(random() % 12));
  return ids;
}

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

TEST(ExpertBanks, JoinPartsThatTouchIntoOneRead) {
  PatternModel model;
  const Blocks& blocks = model.blocks;
  EXPECT_EQ(reads_of(blocks.expert_layers[1], blocks.expert_layers[1].experts[5]).size(), 1u);
  EXPECT_EQ(reads_of(blocks.expert_layers[2], blocks.expert_layers[2].experts[5]).size(), 2u);
}

}  // namespace
}  // namespace sluice::weights
