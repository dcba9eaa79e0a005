#include "weights/placement.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/buffer.h"
#include "weights/pattern.h"

namespace sluice::weights {
namespace {

TEST(Placement, TheSmallestBudgetWorksAndAByteLessIsRefused) {
  PatternModel model;
  const std::uint64_t smallest = smallest_budget(model.blocks, *model.reader);
  EXPECT_TRUE(place(model.blocks, *model.reader, {}, smallest));
  const auto refused = place(model.blocks, *model.reader, {}, smallest - 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::memory);
}

TEST(Placement, NeverPromisesMoreThanTheBudget) {
  PatternModel model;
  const std::uint64_t smallest = smallest_budget(model.blocks, *model.reader);
  for (std::uint64_t budget = smallest; budget < smallest + 2'000'000; budget += 12'345) {
    const auto placement = place(model.blocks, *model.reader, {}, budget);
    ASSERT_TRUE(placement);
    EXPECT_LE(placement->charge(), budget);
    EXPECT_GE(placement->wave_slots, 1u);
  }
}

TEST(Placement, KeepsTheTrunkBeforeExperts) {
  PatternModel model;
  const std::uint64_t smallest = smallest_budget(model.blocks, *model.reader);
  bool banks = false;
  for (std::uint64_t budget = smallest; budget < smallest + 3'000'000; budget += 10'000) {
    const auto placement = place(model.blocks, *model.reader, {}, budget);
    ASSERT_TRUE(placement);
    const bool whole_trunk = std::ranges::all_of(placement->resident, std::identity{});
    if (placement->bank_slots[1] > 1) {
      EXPECT_TRUE(whole_trunk) << budget;
      banks = true;
    }
  }
  EXPECT_TRUE(banks);
}

TEST(Placement, GivesExpertsWhatTheTrunkMayNotHave) {
  PatternModel model;
  const std::uint64_t budget = smallest_budget(model.blocks, *model.reader) + 500'000;
  std::uint64_t resident = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t banks = 0;
  for (const double share : {1.0, 0.6, 0.3, 0.0}) {
    ReadShape shape;
    shape.trunk_share = share;
    const auto placement = place(model.blocks, *model.reader, shape, budget);
    ASSERT_TRUE(placement);
    EXPECT_LE(placement->charge(), budget);
    EXPECT_LT(placement->resident_room, resident);
    EXPECT_TRUE(share == 1 || placement->bank_bytes() > banks);
    resident = placement->resident_room;
    banks = placement->bank_bytes();
  }
  EXPECT_EQ(resident, 0u);
}

TEST(Placement, SpreadsResidentTilesOverTheSchedule) {
  PatternModel model;
  const auto placement = place(model.blocks, *model.reader, {8 << 10, 4},
                               smallest_budget(model.blocks, *model.reader) + 500'000);
  ASSERT_TRUE(placement);
  const auto& resident = placement->resident;
  const auto count = std::ranges::count(resident, true);
  const auto half = static_cast<std::ptrdiff_t>(resident.size() / 2);
  const auto first_half = std::count(resident.begin(), resident.begin() + half, true);
  ASSERT_GT(count, 8);
  EXPECT_NEAR(static_cast<double>(first_half) / static_cast<double>(count), 0.5, 0.15);
}

TEST(Placement, CutsMatricesIntoWholeGroupsOfRows) {
  PatternModel model;
  for (const std::uint64_t tile_bytes : {1u, 6000u, 40000u, 10'000'000u}) {
    const Schedule schedule = make_schedule(model.blocks, tile_bytes);
    const ScheduleSize size = schedule_size(model.blocks, tile_bytes);
    EXPECT_EQ(size.tiles, schedule.tiles.size());
    EXPECT_EQ(size.longest_tile, schedule.longest_tile());
    EXPECT_EQ(schedule.tiles.capacity(), size.tiles) << "memory that is charged to nobody";
    std::vector<std::uint64_t> rows(model.blocks.matrices.size(), 0);
    for (const TileSpan& tile : schedule.tiles) {
      EXPECT_EQ(tile.first_row, rows[tile.matrix]);
      EXPECT_EQ(tile.rows % model.blocks.matrices[tile.matrix].rows_together, 0u);
      rows[tile.matrix] += tile.rows;
    }
    for (MatrixId id = 0; id < rows.size(); ++id) {
      EXPECT_EQ(rows[id], model.blocks.matrices[id].rows);
    }
  }
}

TEST(Placement, Promise3ChargesForTheTablesOfItsTilesAndKeepsThemSmall) {
  const Blocks blocks = large_trunk();
  const auto reader = io::make_reader(io::IoMode::pread).value();
  const std::uint64_t smallest = smallest_budget(blocks, *reader);
  const ScheduleSize finest = schedule_size(blocks, 64 << 10);
  EXPECT_LT(smallest, finest.tiles * kTableBytesPerTile / 4) << "a larger ring of larger tiles";
  for (const std::uint64_t more : {0u, 1u << 20, 10u << 20, 100u << 20, 1000u << 20}) {
    const auto placement = place(blocks, *reader, {}, smallest + more);
    ASSERT_TRUE(placement) << more;
    EXPECT_EQ(placement->table_bytes, placement->schedule.tiles.size() * kTableBytesPerTile);
    EXPECT_EQ(placement->charge(), placement->table_bytes +
                                       Buffer::charge_for(placement->resident_room) +
                                       Buffer::charge_for(placement->ring_bytes));
    EXPECT_LE(placement->charge(), smallest + more);
  }
}

TEST(Placement, GivesMoreSlotsToTheLayerWhoseExpertsAreUsedMore) {
  PatternModel model;
  std::uint64_t budget = smallest_budget(model.blocks, *model.reader);
  auto equal = place(model.blocks, *model.reader, {}, budget);
  while (equal && equal->bank_slots[1] < 6) {
    equal = place(model.blocks, *model.reader, {}, budget += 10'000);
  }
  ASSERT_TRUE(equal);
  ExpertUse use(3);
  for (std::size_t layer = 1; layer < 3; ++layer) use[layer].assign(12, 0.0f);
  const auto unknown = place(model.blocks, *model.reader, {}, budget, use);
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->bank_slots, equal->bank_slots);
  for (std::size_t expert = 0; expert < 12; ++expert) use[1][expert] = 0.1f;
  for (std::size_t expert = 0; expert < 12; ++expert) use[2][expert] = 5.0f;
  const auto by_use = place(model.blocks, *model.reader, {}, budget, use);
  ASSERT_TRUE(by_use);
  ASSERT_LT(equal->bank_slots[1], 8u);
  EXPECT_GT(by_use->bank_slots[2], equal->bank_slots[2]);
  EXPECT_GE(by_use->bank_slots[1], equal->bank_slots[1] / 2) << "every layer keeps half its share";
  EXPECT_LE(by_use->charge(), budget);
}

TEST(Placement, MakesTheRingAsLargeAsAskedOrRefuses) {
  PatternModel model;
  const std::uint64_t budget = smallest_budget(model.blocks, *model.reader) + 600'000;
  ReadShape shape;
  shape.ring_bytes = 300'000;
  const auto placement = place(model.blocks, *model.reader, shape, budget);
  ASSERT_TRUE(placement);
  EXPECT_EQ(placement->ring_bytes, 300'000u);
  EXPECT_LE(placement->charge(), budget);
  shape.ring_bytes = budget;
  const auto refused = place(model.blocks, *model.reader, shape, budget);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::memory);
}

}  // namespace
}  // namespace sluice::weights
