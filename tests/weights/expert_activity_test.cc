#include "weights/expert_activity.h"

#include <gtest/gtest.h>

#include <thread>

#include "weights/expert_banks.h"
#include "weights/pattern.h"

namespace sluice::weights {
namespace {

using LastUse = ExpertActivity::LastUse;
using Cells = std::vector<std::uint32_t>;

constexpr std::uint32_t kInMemory = ExpertActivity::kInMemory;
constexpr std::uint32_t kFromMemory = ExpertActivity::kFromMemory;
constexpr std::uint32_t kFromDrive = ExpertActivity::kFromDrive;

Blocks blocks_of(std::vector<std::size_t> experts) {
  Blocks blocks;
  for (const std::size_t count : experts) {
    blocks.expert_layers.emplace_back().experts.resize(count);
  }
  return blocks;
}

std::uint32_t word(const ExpertActivity& activity, std::size_t layer, std::size_t expert,
                   std::uint32_t state) {
  const std::size_t cell = layer * activity.experts() + expert;
  return static_cast<std::uint32_t>(cell << ExpertActivity::kStateBits) | state;
}

TEST(ExpertActivity, TellsWhatChangedSinceAMoment) {
  ExpertActivity activity(blocks_of({0, 5, 7}));
  EXPECT_EQ(activity.layers(), 3u);
  EXPECT_EQ(activity.experts(), 7u);
  EXPECT_EQ(activity.count(), 12u);
  EXPECT_TRUE(activity.since(0).cells.empty());

  activity.note(2, 6, {.reading = true});
  activity.note(1, 0, {.in_memory = true, .last_use = LastUse::from_memory});
  const auto first = activity.since(0);
  EXPECT_EQ(first.cells, (Cells{word(activity, 1, 0, kInMemory | kFromMemory),
                                word(activity, 2, 6, ExpertActivity::kReading)}));
  EXPECT_TRUE(activity.since(first.now).cells.empty());

  activity.note(2, 6, {.in_memory = true, .last_use = LastUse::from_drive});
  const auto second = activity.since(first.now);
  EXPECT_EQ(second.cells, Cells{word(activity, 2, 6, kInMemory | kFromDrive)});
  EXPECT_EQ(activity.since(0).cells.size(), 2u);
  EXPECT_EQ(activity.since(second.now + 1).cells.size(), 2u) << "a moment of an earlier server";
}

TEST(ExpertActivity, LosesNothingWhileItIsWritten) {
  ExpertActivity activity(blocks_of({64, 64}));
  constexpr std::uint32_t kRounds = 20'000;
  std::thread writer([&] {
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      activity.note(round / 64 % 2, static_cast<std::int32_t>(round % 64),
                    {.in_memory = round % 3 == 0, .last_use = LastUse::from_drive});
    }
  });
  std::vector<std::uint32_t> seen(128);
  std::uint64_t now = 0;
  while (now < kRounds) {
    const auto changes = activity.since(now);
    for (const std::uint32_t each : changes.cells) {
      seen[each >> ExpertActivity::kStateBits] = each;
    }
    now = changes.now;
  }
  writer.join();
  const auto all = activity.since(0);
  EXPECT_EQ(all.cells, seen);
}

TEST(ExpertActivity, FollowsTheBanks) {
  PatternModel model;
  MemoryLedger ledger(std::uint64_t{1} << 30);
  Placement placement = place(model.blocks, *model.reader, {}, std::uint64_t{1} << 30).value();
  placement.wave_slots = 1;
  placement.bank_slots = {0, 1, 0};
  const auto banks =
      std::move(*ExpertBanks::create(model.blocks, placement, *model.reader, ledger));
  ExpertActivity activity(model.blocks);
  banks->watch_with(activity);
  std::uint64_t now = 0;
  const auto changed_by_use_of = [&](std::size_t layer, std::int32_t id) {
    banks->begin(layer, {{id}});
    const auto expert = banks->next();
    EXPECT_TRUE(expert);
    banks->release(*expert);
    const auto changes = activity.since(now);
    now = changes.now;
    return changes.cells;
  };
  EXPECT_EQ(changed_by_use_of(1, 3), Cells{word(activity, 1, 3, kInMemory | kFromDrive)});
  EXPECT_EQ(changed_by_use_of(1, 3), Cells{word(activity, 1, 3, kInMemory | kFromMemory)});
  EXPECT_EQ(changed_by_use_of(2, 5), Cells{word(activity, 2, 5, kFromDrive)})
      << "a wave's expert is gone when it was used";
  Cells left;  // until another is used more often
  for (int i = 0; i < 9 && left.size() < 2; ++i) left = changed_by_use_of(1, 4);
  EXPECT_EQ(left, (Cells{word(activity, 1, 3, 0), word(activity, 1, 4, kInMemory | kFromDrive)}));
}

}  // namespace
}  // namespace sluice::weights
