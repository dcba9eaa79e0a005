// A pack's stream through a reader: any extent, from any number of parts, and never a wrong byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <iterator>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/buffer.h"
#include "base/size.h"
#include "io/fault_reader.h"
#include "io/make_reader.h"
#include "io/pread_reader.h"
#include "store/pack_files.h"
#include "store/pack_reader.h"

namespace sluice::store {
namespace {

/// An opened pack with its reader.
struct Opened {
  std::unique_ptr<io::Reader> reader;
  std::shared_ptr<const Pack> pack;
  MemoryLedger ledger{std::uint64_t{1} << 30};
  Buffer room;
  std::uint64_t most_bounce = kMostBounce;

  Result<std::span<const std::byte>> read(std::uint64_t offset, std::uint64_t length) {
    return io::read_now(*reader, {kPackStream, offset, length}, room.bytes(), io::Purpose::other);
  }
};

void open(const PackFolder& folder, std::unique_ptr<io::Reader> inner, Opened& opened) {
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  opened.reader = std::move(inner);
  const auto files = open_weights(*checkpoint, opened.reader, opened.most_bounce);
  ASSERT_TRUE(files);
  EXPECT_EQ(*files, std::vector<io::FileId>{kPackStream});
  opened.pack = checkpoint->pack();
  auto room = Buffer::allocate(1 << 20, Tenant::activations, opened.ledger);
  ASSERT_TRUE(room);
  opened.room = std::move(*room);
}

class PackReader : public ::testing::TestWithParam<io::IoMode> {
 protected:
  std::unique_ptr<io::Reader> reader() {
    io::ReaderOptions options;
    options.piece_bytes = 8192;
    return *io::make_reader(GetParam(), options);
  }
};

TEST_P(PackReader, AnyExtentOfAnyDeal) {
  for (const std::vector<std::uint8_t>& deal :
       {std::vector<std::uint8_t>{0}, {0, 1, 2}, {0, 1, 0, 2, 0, 1}}) {
    PackIndex index = small_index(deal, 4096);
    const auto stream = fill_stream(index);
    const PackFolder folder;
    write_pack(index, stream, folder);
    Opened opened;
    open(folder, reader(), opened);
    EXPECT_EQ(opened.reader->size(kPackStream), stream.size());
    std::mt19937 random(3);
    for (int round = 0; round < 200; ++round) {
      const std::uint64_t offset = random() % stream.size();
      const std::uint64_t length =
          random() % std::min<std::uint64_t>(30000, stream.size() - offset);
      const auto bytes = opened.read(offset, length);
      ASSERT_TRUE(bytes) << bytes.error().message;
      ASSERT_EQ(bytes->size(), length);
      if (length == 0) continue;
      ASSERT_EQ(std::memcmp(bytes->data(), stream.data() + offset, length), 0)
          << offset << " " << length;
    }
    EXPECT_FALSE(opened.read(stream.size() - 10, 11));
  }
}

TEST_P(PackReader, WholeUnitsComeStraightIntoTheRoom) {
  PackIndex index = small_index({0, 1}, 4096);
  const auto stream = fill_stream(index);
  const PackFolder folder;
  write_pack(index, stream, folder);
  Opened opened;
  open(folder, reader(), opened);
  for (BlockWalk walk(index); !walk.done(); walk.next()) {
    const BlockSpan span = walk.span();
    if (span.bytes == 0) continue;
    const auto bytes = opened.read(span.offset, span.bytes);
    ASSERT_TRUE(bytes) << bytes.error().message;
    EXPECT_GE(bytes->data(), opened.room.data());
    EXPECT_EQ(std::memcmp(bytes->data(), stream.data() + span.offset, span.bytes), 0);
  }
  const auto& statistics = opened.reader->statistics();
  EXPECT_EQ(statistics.files.size(), 2u);
}

TEST_P(PackReader, Promise6AFlippedByteIsNeverHandedOut) {
  PackIndex index = small_index({0, 1, 2}, 4096);
  const auto stream = fill_stream(index);
  for (std::uint64_t flip = 7; flip < stream.size(); flip += 4999) {
    auto damaged = stream;
    damaged[flip] ^= std::byte{1};
    const PackFolder folder;
    write_pack(index, damaged, folder);
    Opened opened;
    open(folder, reader(), opened);
    const auto all = opened.read(0, stream.size());
    ASSERT_FALSE(all) << flip;
    EXPECT_EQ(all.error().kind, ErrorKind::model_files);
    EXPECT_NE(all.error().message.find(".data: "), std::string::npos) << all.error().message;
    const auto one = opened.read(flip, 1);  // even when asked for alone
    if (opened.pack->whole_units({flip, flip + 1}).end > flip + 1) {
      ASSERT_FALSE(one) << flip;
    }
    const std::uint64_t other = flip < stream.size() / 2 ? stream.size() - 5000 : 0;
    ASSERT_TRUE(opened.read(other, 128)) << "other units are as good as before";
  }
}

TEST_P(PackReader, Promise6WhatIsDamagedIsNamed) {
  PackIndex index = small_index({0, 1}, 4096);
  const auto stream = fill_stream(index);
  const auto named = [&](std::uint64_t flip, const char* name) {
    auto damaged = stream;
    damaged[flip] ^= std::byte{0x80};
    const PackFolder folder;
    write_pack(index, damaged, folder);
    Opened opened;
    open(folder, reader(), opened);
    const auto all = opened.read(0, stream.size());
    ASSERT_FALSE(all);
    EXPECT_NE(all.error().message.find(name), std::string::npos) << all.error().message;
  };
  TensorTable table;
  FaultList faults;
  ASSERT_TRUE(enter_pack_tensors(index, "index", table, faults));
  const auto at = [&](const char* name) { return table.tensor(*table.find(name)).offset; };
  named(at("embedding.weight") + 3 * 128, "tensor 'embedding.weight', row 3");
  named(at("layers.0.norm.weight"), "tensor 'layers.0.norm.weight'");
  named(at("layers.0.q.weight") + 299 * 200, "tensor 'layers.0.q.weight', rows 288 to 299");
  named(at("layers.0.experts.4.w2") + 5, "layer 0, expert 4");
  named(at("scalar"), "tensor 'scalar'");
  named(at("scalar") + 5, "between two blocks");
}

TEST_P(PackReader, Promise6AFailedPieceIsTheDrivesError) {
  PackIndex index = small_index({0, 1}, 4096);
  const auto stream = fill_stream(index);
  const PackFolder folder;
  write_pack(index, stream, folder);
  io::ReadFaults faults;
  faults.faults.push_back({.path_ending = "2-of-2.data"});
  Opened opened;
  open(folder, io::make_fault_reader(reader(), faults), opened);
  const auto bytes = opened.read(0, stream.size());
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().kind, ErrorKind::drive);
}

/// Counts completions; can be cancelled like any sink.
class Counter final : public io::CompletionSink {
 public:
  void complete(io::Completion completion) noexcept override {
    const std::scoped_lock lock(mutex_);
    (completion.bytes ? good_ : bad_)++;
  }
  int good() {
    const std::scoped_lock lock(mutex_);
    return good_;
  }
  int all() {
    const std::scoped_lock lock(mutex_);
    return good_ + bad_;
  }

 private:
  std::mutex mutex_;
  int good_ = 0;
  int bad_ = 0;
};

TEST_P(PackReader, CancelEndsOneSinksReadsAndNoOthers) {
  PackIndex index = small_index({0, 1, 2}, 4096);
  const auto stream = fill_stream(index);
  const PackFolder folder;
  write_pack(index, stream, folder);
  io::ReadFaults faults;
  faults.max_delay = std::chrono::microseconds(200);
  Opened opened;
  open(folder, io::make_fault_reader(reader(), faults), opened);
  constexpr int kReads = 30;
  const std::size_t room = round_up(opened.reader->room_for(20000), io::kRoomAlignment);
  auto rooms = Buffer::allocate(2 * kReads * room, Tenant::activations, opened.ledger);
  ASSERT_TRUE(rooms);
  for (int round = 0; round < 10; ++round) {
    Counter dropped;
    Counter kept;
    for (int i = 0; i < 2 * kReads; ++i) {
      const io::ReadRequest request{
          .extent = {kPackStream, static_cast<std::uint64_t>(i) * 100, 20000},
          .room = rooms->bytes().subspan(static_cast<std::size_t>(i) * room, room),
          .tag = static_cast<std::uint64_t>(i),
          .sink = i % 2 == 0 ? &dropped : &kept};
      opened.reader->submit({&request, 1});
    }
    opened.reader->promote(kept, 2 * kReads - 1);
    opened.reader->cancel(dropped);
    EXPECT_EQ(dropped.all(), kReads);
    while (kept.all() < kReads) std::this_thread::yield();
    EXPECT_EQ(kept.good(), kReads);
    opened.reader->cancel(kept);
  }
}

TEST_P(PackReader, Promise2APartOfALargeUnitIsRefusedInsteadOfTakingMemoryForAllOfIt) {
  PackIndex index;
  index.identity = 42;
  index.chunk_bytes = 4096;
  index.deal = {0, 1};
  PackTensorMaker maker(index);
  Shape large{.rank = 2};
  large.size = {1100, 1000};
  for (const char* name : {"alone", "first", "second", "small"}) {
    index.tensors.push_back(maker.make(name, DType::u8, large));
    large.size[0] = name == std::string_view("second") ? 10 : 1100;
  }
  index.blocks = {{1, 0, -1, -1}, {2, 0, -1, -1}, {1, 0, -1, -1}};
  const auto stream = fill_stream(index);
  const PackFolder folder;
  write_pack(index, stream, folder);
  Opened opened;
  open(folder, reader(), opened);
  ASSERT_GT(opened.pack->block_offset(1), kMostBounce);
  auto room = Buffer::allocate(4 << 20, Tenant::activations, opened.ledger);
  ASSERT_TRUE(room);
  opened.room = std::move(*room);
  for (const std::size_t block : {0, 1}) {
    const std::uint64_t offset = opened.pack->block_offset(block);
    const auto part = opened.read(offset + 4096, 4096);
    ASSERT_FALSE(part);
    EXPECT_EQ(part.error().kind, ErrorKind::model_files);
    EXPECT_NE(part.error().message.find("pack the model again"), std::string::npos);
    EXPECT_TRUE(opened.read(offset, (block + 1) * 1'100'000)) << "all of it needs no more room";
  }
  EXPECT_TRUE(opened.read(opened.pack->block_offset(2) + 5, 100));

  Opened patient;
  patient.most_bounce = 4 << 20;
  open(folder, reader(), patient);
  const std::uint64_t inside = patient.pack->block_offset(1) + 4096;
  const auto part = patient.read(inside, 4096);
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(std::memcmp(part->data(), stream.data() + inside, 4096), 0);
}

TEST_P(PackReader, ARefusedReadHoldsUpNeitherTheOthersNorCancel) {
  PackIndex index;
  index.identity = 42;
  index.chunk_bytes = 4096;
  index.deal = {0};
  PackTensorMaker maker(index);
  Shape shape{.rank = 1};
  shape.size = {2'000'000};
  index.tensors.push_back(maker.make("large", DType::u8, shape));
  shape.size = {5000};
  index.tensors.push_back(maker.make("small", DType::u8, shape));
  index.blocks = {{1, 0, -1, -1}, {1, 0, -1, -1}};
  const auto stream = fill_stream(index);
  const PackFolder folder;
  write_pack(index, stream, folder);
  Opened opened;
  open(folder, reader(), opened);
  Counter counter;
  std::vector<io::ReadRequest> requests;
  for (std::size_t i = 0; i < 6; ++i) {
    requests.push_back({.extent = {kPackStream, opened.pack->block_offset(i % 2), 5000},
                        .room = opened.room.bytes().subspan(i * 16384, 16384),
                        .tag = i,
                        .sink = &counter});
  }
  opened.reader->submit(requests);
  while (counter.all() < 6) std::this_thread::yield();
  opened.reader->cancel(counter);
  EXPECT_EQ(counter.good(), 3);
}

/// Holds its reads. One thing can be made to happen inside cancel(), when all of the sink's reads
/// have arrived and before its queue is looked through.
class HeldReader final : public io::Reader {
 public:
  Result<io::FileId> open(const std::filesystem::path&) override { return 0; }
  std::uint64_t size(io::FileId) const override { return std::uint64_t{1} << 30; }
  const std::filesystem::path& path(io::FileId) const override { return path_; }
  std::size_t drive_of(io::FileId) const override { return 0; }
  std::size_t room_for(std::uint64_t length) const override { return length + 8192; }
  void submit(std::span<const io::ReadRequest> requests) override {
    held_.insert(held_.end(), requests.begin(), requests.end());
  }
  void promote(const io::CompletionSink&, std::uint64_t) override {}
  void cancel(const io::CompletionSink& sink) override {
    const auto is_its = [&](const io::ReadRequest& each) { return each.sink == &sink; };
    arrive(is_its);
    if (meanwhile) std::exchange(meanwhile, nullptr)();
    for (const io::ReadRequest& each : take(is_its)) {
      each.sink->complete({each.tag, fail(ErrorKind::interrupted, "cancelled")});
    }
  }
  io::ReaderStatistics statistics() const override { return {}; }
  std::uint64_t memory_bytes() const override { return 0; }

  void arrive(const std::function<bool(const io::ReadRequest&)>& which) {
    for (const io::ReadRequest& each : take(which)) {
      each.sink->complete({each.tag, std::span<const std::byte>(each.room)});
    }
  }

  std::function<void()> meanwhile;

 private:
  std::vector<io::ReadRequest> take(const std::function<bool(const io::ReadRequest&)>& which) {
    std::vector<io::ReadRequest> taken;
    std::ranges::copy_if(held_, std::back_inserter(taken), which);
    std::erase_if(held_, which);
    return taken;
  }

  std::filesystem::path path_ = "folder/part";
  std::vector<io::ReadRequest> held_;
};

TEST(PackRelays, CancelOfReadsThatArriveMeanwhileEndsNoReadsOfAnother) {
  PackIndex index = small_index({0}, 4096);
  fill_stream(index);
  auto inner = std::make_unique<HeldReader>();
  HeldReader& held = *inner;
  const auto reader =
      make_pack_reader(std::move(inner), std::make_shared<Pack>(index, std::vector<ShardFile>(1)),
                       {0}, PackCheck::off);
  MemoryLedger ledger(std::uint64_t{1} << 30);
  const auto room = Buffer::allocate(1 << 16, Tenant::activations, ledger);
  ASSERT_TRUE(room);
  Counter first;
  Counter second;
  const auto read = [&](Counter& sink) {
    const io::ReadRequest request{
        .extent = {kPackStream, 0, 5000}, .room = room->bytes(), .sink = &sink};
    reader->submit({&request, 1});
  };
  read(first);
  held.meanwhile = [&] { read(second); };
  reader->cancel(first);
  EXPECT_EQ(first.good(), 1);
  EXPECT_EQ(second.all(), 0) << "nobody cancelled it";
  held.arrive([](const io::ReadRequest&) { return true; });
  EXPECT_EQ(second.good(), 1);
}

TEST(PackUnits, ATensorWithOneChecksumHasAllOfItsRowsTogether) {
  PackIndex index = small_index({0}, 4096);
  fill_stream(index);
  TensorTable table;
  FaultList faults;
  ASSERT_TRUE(enter_pack_tensors(index, "index", table, faults));
  const auto at = [&](const char* name) { return table.tensor(*table.find(name)).offset; };
  const Pack pack(index, std::vector<ShardFile>(1));
  EXPECT_GE(pack.rows_together(at("layers.0.norm.weight")), 37u);
  EXPECT_EQ(pack.rows_together(at("layers.0.q.weight")), 32u);
  EXPECT_EQ(pack.rows_together(at("layers.0.experts.0.w2")), 1u);
}

INSTANTIATE_TEST_SUITE_P(Readers, PackReader,
                         ::testing::Values(io::IoMode::pread, io::IoMode::uring, io::IoMode::mmap),
                         [](const auto& test) { return std::string(io::name_of(test.param)); });

TEST(PackFiles, Promise6PartsThatAreMissingOrWrongAreNamed) {
  PackIndex index = small_index({0, 1}, 4096);
  const auto stream = fill_stream(index);
  const PackFolder folder;
  write_pack(index, stream, folder);
  ASSERT_TRUE(Checkpoint::open(folder.path()));
  ASSERT_TRUE(Checkpoint::open(folder.path() / kPackIndexName));
  const auto second = folder.path() / pack_part_name(1, 2);
  const auto fault = [&] {
    const auto opened = Checkpoint::open(folder.path());
    EXPECT_FALSE(opened);
    if (opened) return std::string();
    EXPECT_EQ(opened.error().kind, ErrorKind::model_files);
    return opened.error().message;
  };
  const auto size = std::filesystem::file_size(second);
  std::filesystem::resize_file(second, size - 1);
  EXPECT_NE(fault().find("expected " + std::to_string(size) + " bytes"), std::string::npos);
  std::filesystem::resize_file(second, size);
  std::filesystem::copy_file(folder.path() / pack_part_name(0, 2), second,
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file(second, size);
  EXPECT_NE(fault().find("belongs to another pack"), std::string::npos);
  std::filesystem::remove(second);
  EXPECT_NE(fault().find("beside the index"), std::string::npos);
}

TEST(PackFiles, PartsThatWereMovedBesideTheIndexAreFound) {
  PackIndex index = small_index({0, 1}, 4096);
  const auto stream = fill_stream(index);
  const PackFolder folder;
  write_pack(index, stream, folder);
  index.folders = {"/no/such/folder", "/nor/this"};
  folder.write(kPackIndexName, encode_pack_index(index));
  EXPECT_TRUE(Checkpoint::open(folder.path()));
}

TEST(PackFiles, AnUnfinishedPackIsNoModel) {
  const PackFolder folder;
  folder.write(kPackJournalName, {});
  const auto opened = Checkpoint::open(folder.path());
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("not finished"), std::string::npos);
  EXPECT_NE(opened.error().message.find("same sluice pack command"), std::string::npos);
}

}  // namespace
}  // namespace sluice::store
