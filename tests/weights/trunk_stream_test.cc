#include "weights/trunk_stream.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <deque>

#include "base/buffer.h"
#include "weights/pattern.h"

namespace sluice::weights {
namespace {

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 30;

/// Takes all tiles of one pass and checks that each matrix comes whole, in order, with its bytes.
Status walk(TrunkStream& stream, const Blocks& blocks, bool with_head) {
  stream.begin_pass(with_head);
  const MatrixId end =
      with_head ? static_cast<MatrixId>(blocks.matrices.size()) : blocks.first_head_matrix;
  for (MatrixId id = 0; id < end; ++id) {
    const MatrixBlock& matrix = blocks.matrices[id];
    std::uint64_t row = 0;
    while (row < matrix.rows) {
      SLUICE_ASSIGN(const auto tiles, stream.take(id));
      EXPECT_FALSE(tiles.empty());
      for (const Tile& tile : tiles) {
        EXPECT_EQ(tile.matrix, id);
        EXPECT_EQ(tile.first_row, row);
        EXPECT_EQ(tile.rows % matrix.rows_together, 0u);
        EXPECT_TRUE(is_pattern(tile.data, matrix.extent.offset + row * matrix.row_bytes(),
                               tile.rows * matrix.row_bytes()));
        row += tile.rows;
      }
      stream.release();
    }
    EXPECT_EQ(row, matrix.rows);
  }
  return {};
}

TEST(TrunkStream, GivesEveryTileInOrderAtEveryBudget) {
  io::ReadFaults faults;
  faults.max_delay = std::chrono::microseconds(100);
  PatternModel model(faults);
  const std::uint64_t smallest = smallest_budget(model.blocks, *model.reader);
  std::uint64_t resident_before = 0;
  for (const std::uint64_t extra : {0, 100'000, 300'000, 600'000, 900'000, 4'000'000}) {
    MemoryLedger ledger(kPlenty);
    const auto placement = place(model.blocks, *model.reader, {32 << 10, 4}, smallest + extra);
    ASSERT_TRUE(placement);
    EXPECT_GE(placement->resident_room, resident_before);
    resident_before = placement->resident_room;
    const auto stream = TrunkStream::create(model.blocks, *placement, *model.reader, ledger);
    ASSERT_TRUE(stream);
    for (const bool with_head : {true, false, false, true, true, false, true}) {
      ASSERT_TRUE(walk(**stream, model.blocks, with_head));
    }
  }
  EXPECT_GT(resident_before, 0u);
}

TEST(TrunkStream, ReadsResidentTilesOnce) {
  PatternModel model;
  MemoryLedger ledger(kPlenty);
  const auto placement = place(model.blocks, *model.reader, {}, kPlenty);
  ASSERT_TRUE(placement);
  const auto stream = TrunkStream::create(model.blocks, *placement, *model.reader, ledger);
  ASSERT_TRUE(stream);
  for (int pass = 0; pass < 5; ++pass) ASSERT_TRUE(walk(**stream, model.blocks, true));
  const auto trunk = static_cast<std::size_t>(io::Purpose::trunk);
  EXPECT_EQ(model.reader->statistics().requested_bytes[trunk], placement->schedule.bytes());
}

TEST(TrunkStream, Promise2StreamsWhatItGaveBackEvenWhereNothingHadToStream) {
  PatternModel model;
  MemoryLedger ledger(kPlenty);
  const auto placement = place(model.blocks, *model.reader, {}, kPlenty);
  ASSERT_TRUE(placement);
  ASSERT_EQ(std::ranges::count(placement->resident, false), 0);
  const auto stream = TrunkStream::create(model.blocks, *placement, *model.reader, ledger);
  ASSERT_TRUE(stream);
  ASSERT_TRUE(walk(**stream, model.blocks, true));
  const std::uint64_t given = (*stream)->shed(placement->resident_room);
  EXPECT_GT(given, placement->resident_room / 2);
  EXPECT_EQ((*stream)->gone_bytes(), given);
  for (int pass = 0; pass < 3; ++pass) ASSERT_TRUE(walk(**stream, model.blocks, true));
  EXPECT_GT((*stream)->regrow(given), 0u);
  for (int pass = 0; pass < 3; ++pass) ASSERT_TRUE(walk(**stream, model.blocks, true));
}

TEST(TrunkStream, HasNoRingWhereItWouldKeepTheWholeFromFitting) {
  PatternModel model;
  int without_ring = 0;
  const std::uint64_t smallest = smallest_budget(model.blocks, *model.reader);
  for (std::uint64_t budget = smallest; budget < smallest + 4'000'000; budget += 8192) {
    const auto placement = place(model.blocks, *model.reader, {}, budget);
    ASSERT_TRUE(placement);
    ASSERT_LE(placement->charge(), budget);
    const bool is_whole = std::ranges::count(placement->resident, false) == 0;
    ASSERT_TRUE(is_whole || placement->ring_bytes > 0) << budget;
    without_ring += placement->ring_bytes == 0 ? 1 : 0;
  }
  EXPECT_GT(without_ring, 0);
}

TEST(TrunkStream, ChargesWhatThePlacementSays) {
  PatternModel model;
  MemoryLedger ledger(kPlenty);
  const std::uint64_t budget = smallest_budget(model.blocks, *model.reader) + 400'000;
  const auto placement = place(model.blocks, *model.reader, {}, budget);
  ASSERT_TRUE(placement);
  EXPECT_LE(placement->charge(), budget);
  const auto stream = TrunkStream::create(model.blocks, *placement, *model.reader, ledger);
  ASSERT_TRUE(stream);
  EXPECT_EQ(ledger.charged(Tenant::resident), Buffer::charge_for(placement->resident_room));
  EXPECT_EQ(ledger.charged(Tenant::ring), Buffer::charge_for(placement->ring_bytes));
  EXPECT_EQ(ledger.charged(Tenant::program), placement->table_bytes);
}

TEST(TrunkStream, AFailedReadNamesTheTensorAndTheStreamGoesOn) {
  io::ReadFaults faults;
  io::ReadFault fault;
  fault.from = 9;
  fault.count = 1;
  faults.faults.push_back(fault);
  PatternModel model(faults);
  MemoryLedger ledger(kPlenty);
  const std::uint64_t budget = smallest_budget(model.blocks, *model.reader);
  const auto placement = place(model.blocks, *model.reader, {}, budget);
  ASSERT_TRUE(placement);
  const auto stream = TrunkStream::create(model.blocks, *placement, *model.reader, ledger);
  ASSERT_TRUE(stream);
  const Status failed = walk(**stream, model.blocks, true);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::drive);
  EXPECT_NE(failed.error().message.find("matrix"), std::string::npos) << failed.error().message;
  (*stream)->abort();
  EXPECT_TRUE(walk(**stream, model.blocks, true));
}

TEST(TrunkStream, CanBeDroppedInTheMiddleOfAPass) {
  io::ReadFaults faults;
  faults.max_delay = std::chrono::microseconds(500);
  PatternModel model(faults);
  MemoryLedger ledger(kPlenty);
  const auto placement =
      place(model.blocks, *model.reader, {}, smallest_budget(model.blocks, *model.reader) + 65536);
  ASSERT_TRUE(placement);
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto stream = TrunkStream::create(model.blocks, *placement, *model.reader, ledger);
    ASSERT_TRUE(stream);
    (*stream)->begin_pass(true);
    ASSERT_TRUE((*stream)->take(0));
  }
  EXPECT_EQ(ledger.charged(), 0u);
}

/// Beyond the smallest budget: from a few resident tiles to all of them.
class Shedding : public ::testing::TestWithParam<std::uint64_t> {};

INSTANTIATE_TEST_SUITE_P(TrunkStream, Shedding,
                         ::testing::Values(500'000, 800'000, 1'100'000, 4'000'000, 64'000'000));

TEST_P(Shedding, Promise2GivesResidentTilesBackAnywhereInAPassAndTakesThemAgain) {
  io::ReadFaults faults;
  faults.max_delay = std::chrono::microseconds(50);
  PatternModel model(faults);
  MemoryLedger ledger(kPlenty);
  const std::uint64_t smallest = smallest_budget(model.blocks, *model.reader);
  const auto placement = place(model.blocks, *model.reader, {32 << 10, 4}, smallest + GetParam());
  ASSERT_TRUE(placement);
  ASSERT_GT(placement->ring_bytes, 0u);
  const auto stream = TrunkStream::create(model.blocks, *placement, *model.reader, ledger);
  ASSERT_TRUE(stream);
  const std::uint64_t charged = ledger.charged(Tenant::resident);
  std::uint64_t gone = 0;
  std::uint64_t most = 0;
  for (int pass = 0; pass < 40; ++pass) {
    const bool with_head = pass % 3 != 0;
    (*stream)->begin_pass(with_head);
    const MatrixId end = with_head ? static_cast<MatrixId>(model.blocks.matrices.size())
                                   : model.blocks.first_head_matrix;
    for (MatrixId id = 0; id < end; ++id) {
      if (pass % 4 == 1 && id % 3 == 1) gone += (*stream)->shed(60'000);
      if (pass % 4 == 3 && id % 2 == 0) gone -= (*stream)->regrow(90'000);
      most = std::max(most, gone);
      EXPECT_EQ((*stream)->gone_bytes(), gone);
      EXPECT_EQ(ledger.charged(Tenant::resident), charged - gone);
      const MatrixBlock& matrix = model.blocks.matrices[id];
      for (std::uint64_t row = 0; row < matrix.rows;) {
        const auto tiles = (*stream)->take(id);
        ASSERT_TRUE(tiles) << tiles.error().message;
        for (const Tile& tile : *tiles) {
          ASSERT_EQ(tile.first_row, row);
          ASSERT_TRUE(is_pattern(tile.data, matrix.extent.offset + row * matrix.row_bytes(),
                                 tile.rows * matrix.row_bytes()));
          row += tile.rows;
        }
        (*stream)->release();
      }
    }
  }
  EXPECT_GT(most, 60'000u);
  ASSERT_TRUE(walk(**stream, model.blocks, true));
  gone -= (*stream)->regrow(kPlenty);
  // What the ring holds for the next pass stays there.
  EXPECT_LE(gone, placement->ring_bytes);
  EXPECT_EQ(ledger.charged(Tenant::resident), charged - gone);
  ASSERT_TRUE(walk(**stream, model.blocks, true));
}

TEST(TrunkStream, ShowsAMatrixBeforeItsTurnOnlyIfAllOfItIsThere) {
  PatternModel model;
  MemoryLedger ledger(kPlenty);
  const auto placement = place(model.blocks, *model.reader, {}, kPlenty);
  ASSERT_TRUE(placement);
  const auto stream = TrunkStream::create(model.blocks, *placement, *model.reader, ledger);
  ASSERT_TRUE(stream);
  EXPECT_TRUE((*stream)->peek(4).empty()) << "nothing was read yet";
  ASSERT_TRUE(walk(**stream, model.blocks, true));
  (*stream)->begin_pass(true);
  const auto tiles = (*stream)->peek(4);
  ASSERT_FALSE(tiles.empty());
  std::uint64_t row = 0;
  const MatrixBlock& matrix = model.blocks.matrices[4];
  for (const Tile& tile : tiles) {
    EXPECT_EQ(tile.matrix, 4u);
    EXPECT_EQ(tile.first_row, row);
    EXPECT_TRUE(is_pattern(tile.data, matrix.extent.offset + row * matrix.row_bytes(),
                           tile.rows * matrix.row_bytes()));
    row += tile.rows;
  }
  EXPECT_EQ(row, matrix.rows);
}

/// A file of the pattern without a drive: a read arrives when the test says so, or, at the latest,
/// all at once while one of them is promoted.
class HeldReader final : public io::Reader {
 public:
  Result<io::FileId> open(const std::filesystem::path&) override { return 0; }
  std::uint64_t size(io::FileId) const override { return kPlenty; }
  const std::filesystem::path& path(io::FileId) const override { return path_; }
  std::size_t drive_of(io::FileId) const override { return 0; }
  std::size_t room_for(std::uint64_t length) const override { return length; }
  void submit(std::span<const io::ReadRequest> requests) override {
    held_.insert(held_.end(), requests.begin(), requests.end());
  }
  void promote(const io::CompletionSink&, std::uint64_t tag) override {
    strangers_ += std::ranges::none_of(held_, [&](const auto& each) { return each.tag == tag; });
    arrive(held_.size());
  }
  void cancel(const io::CompletionSink&) override { arrive(held_.size()); }
  io::ReaderStatistics statistics() const override { return {}; }
  std::uint64_t memory_bytes() const override { return 0; }

  void arrive(std::size_t reads) {
    for (; reads > 0; --reads) {
      const io::ReadRequest request = held_.front();
      held_.pop_front();
      const auto bytes = request.room.first(request.extent.length);
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = pattern_at(request.extent.offset + i);
      }
      request.sink->complete({request.tag, std::span<const std::byte>(bytes)});
    }
  }
  /// All that were asked for come to nothing.
  void lose() {
    while (!held_.empty()) {
      const io::ReadRequest request = held_.front();
      held_.pop_front();
      request.sink->complete({request.tag, fail(ErrorKind::drive, "gone for a moment")});
    }
  }
  std::size_t held() const { return held_.size(); }
  int strangers() const { return strangers_; }

 private:
  std::filesystem::path path_ = "pattern";
  std::deque<io::ReadRequest> held_;
  int strangers_ = 0;  // promoted without being under way
};

constexpr MatrixId kMatrices = 40;
constexpr std::uint64_t kBytes = 4096;

/// Matrices of one tile each.
Blocks small_matrices() {
  Blocks blocks;
  blocks.first_head_matrix = kMatrices - 1;
  for (MatrixId id = 0; id < kMatrices; ++id) {
    blocks.matrices.push_back({"matrix" + std::to_string(id), {0, id * kBytes, kBytes}, 1});
  }
  return blocks;
}

TEST(TrunkStream, Promise2ATileThatWasGivenBackDoesNotWaitForTheLaterOnesUnderWay) {
  const Blocks blocks = small_matrices();
  HeldReader reader;
  MemoryLedger ledger(kPlenty);
  const auto placement = place(blocks, reader, {.tile_bytes = kBytes}, kPlenty);
  ASSERT_TRUE(placement);
  ASSERT_EQ(std::ranges::count(placement->resident, false), 0);
  ASSERT_GT(placement->ring_bytes, 0u);
  const auto stream = TrunkStream::create(blocks, *placement, reader, ledger);
  ASSERT_TRUE(stream);
  (*stream)->begin_pass(true);
  const std::size_t most = reader.held();
  ASSERT_LT(most + 2, kMatrices);
  reader.arrive(2);
  ASSERT_TRUE((*stream)->take(0));
  (*stream)->release();
  ASSERT_EQ(reader.held(), most) << "as many later tiles as may be are under way";
  ASSERT_EQ((*stream)->shed(kPlenty), 2 * kBytes) << "the next tile is not there any more";
  for (MatrixId id = 1; id < kMatrices; ++id) {
    const auto tiles = (*stream)->take(id);
    ASSERT_TRUE(tiles);
    EXPECT_TRUE(is_pattern(tiles->front().data, id * kBytes, kBytes));
    (*stream)->release();
  }
  EXPECT_EQ(reader.strangers(), 0) << "what is wanted at once is asked for before it is promoted";
  ASSERT_TRUE(walk(**stream, blocks, true));
}

TEST(TrunkStream, WhatCouldNotBeReadAheadAfterAPassIsAskedForAnewByTheNext) {
  const Blocks blocks = small_matrices();
  HeldReader reader;
  MemoryLedger ledger(kPlenty);
  const auto placement = place(blocks, reader, {}, smallest_budget(blocks, reader));
  ASSERT_TRUE(placement);
  ASSERT_EQ(std::ranges::count(placement->resident, true), 0);
  const auto stream = TrunkStream::create(blocks, *placement, reader, ledger);
  ASSERT_TRUE(stream);
  for (int pass = 0; pass < 3; ++pass) {
    const Status walked = walk(**stream, blocks, true);
    ASSERT_TRUE(walked) << walked.error().message;
    ASSERT_GT(reader.held(), 0u) << "the next pass is read ahead";
    reader.lose();
  }
  (*stream)->begin_pass(true);
  reader.lose();
  const auto lost = (*stream)->take(0);
  ASSERT_FALSE(lost) << "the pass under way cannot do without";
  EXPECT_EQ(lost.error().kind, ErrorKind::drive);
  (*stream)->abort();
  EXPECT_TRUE(walk(**stream, blocks, true));
}

#if defined(__GLIBC__)
std::size_t heap_bytes() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

TEST(TrunkStream, Promise3ItsTablesHoldNoMoreHeapThanIsCharged) {
  constexpr std::size_t kOther = 64 << 10;
  const Blocks blocks = large_trunk();
  HeldReader reader;
  MemoryLedger ledger(kPlenty);
  const std::size_t before = heap_bytes();
  const auto placement = place(blocks, reader, {}, smallest_budget(blocks, reader));
  ASSERT_TRUE(placement);
  const auto stream = TrunkStream::create(blocks, *placement, reader, ledger);
  ASSERT_TRUE(stream);
  EXPECT_LE(heap_bytes(), before + ledger.charged(Tenant::program) + kOther);
  EXPECT_GT(ledger.charged(Tenant::program), 10 * kOther) << "or nothing is shown";
}
#endif

}  // namespace
}  // namespace sluice::weights
