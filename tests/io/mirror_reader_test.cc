// Files on several drives more than once: the bytes are right whichever copy gives them, and go on
// being right when copies fail.
#include "io/mirror_reader.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "io/fault_reader.h"
#include "io/faulty_system.h"
#include "io/make_reader.h"
#include "io_testing.h"
#include "passing_reader.h"
#include "reader_ways.h"

namespace sluice::io {
namespace {

namespace fs = std::filesystem;

using testing::Batch;
using testing::Collector;
using testing::Room;
using testing::TempFolder;
using testing::Way;

constexpr std::uint64_t kFileSize = 3'500'007;  // four parts

/// Whether these are the bytes of a test file from `offset` on.
bool is_in_file(std::span<const std::byte> bytes, std::uint64_t offset) {
  static const std::vector<std::byte> all = [] {
    std::vector<std::byte> content(kFileSize);
    for (std::uint64_t i = 0; i < kFileSize; ++i) content[i] = testing::content_at(i);
    return content;
  }();
  return bytes.empty() || std::memcmp(bytes.data(), all.data() + offset, bytes.size()) == 0;
}

/// A file and its copies, each in a folder "drive-N".
struct Copies {
  explicit Copies(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto place = folder.path() / ("drive-" + std::to_string(i));
      fs::create_directory(place);
      paths.push_back(i == 0 ? folder.file("drive-0/data", kFileSize) : place / "data");
      if (i > 0) fs::copy_file(paths[0], paths[i]);
      drives.push_back(place.filename().string() + "/");
    }
  }
  std::vector<Mirrored> mirrored() const { return {{paths[0], {paths.begin() + 1, paths.end()}}}; }

  TempFolder folder;
  std::vector<fs::path> paths;
  std::vector<std::string> drives;
};

/// Extents of many sizes and alignments, all over the file.
std::vector<Extent> extents(FileId file) {
  std::vector<Extent> all;
  for (std::uint64_t i = 0; i < 24; ++i) {
    const std::uint64_t offset = i * 370'003 % (kFileSize - 1);
    const std::uint64_t length = std::min(kFileSize - offset, i % 5 == 0 ? i * 37 : i * 75'001);
    all.push_back({file, offset, length});
  }
  all.push_back({file, 0, kFileSize});
  all.push_back({file, kFileSize, 0});
  all.push_back({file, kFileSize - 1, 1});
  return all;
}

/// Reads all of extents() at once and checks every byte.
void expect_all_bytes(Reader& reader, FileId file) {
  Collector sink;
  Batch batch(reader, sink);
  const auto all = extents(file);
  for (std::size_t i = 0; i < all.size(); ++i) {
    batch.add(all[i], i, static_cast<Priority>(i % kPriorities));
  }
  reader.submit(batch.requests());
  for (const Completion& completion : sink.wait_for(all.size())) {
    const Extent& extent = all[completion.tag];
    ASSERT_TRUE(completion.bytes.has_value()) << completion.bytes.error().message;
    ASSERT_EQ(completion.bytes->size(), extent.length);
    EXPECT_TRUE(is_in_file(*completion.bytes, extent.offset)) << extent.offset;
  }
}

/// Reads the whole file at once and checks every byte.
void expect_file(Reader& reader, FileId file) {
  const Room room(reader.room_for(kFileSize));
  const auto bytes = read_now(reader, {file, 0, kFileSize}, room.bytes(), Purpose::other);
  ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
  EXPECT_TRUE(is_in_file(*bytes, 0));
}

/// A reader of which one drive can be made to stand still. What it still holds at its end fails.
class StandingReader final : public PassingReader {
 public:
  StandingReader(std::unique_ptr<Reader> behind, std::string path_ending)
      : PassingReader(std::move(behind)), path_ending_(std::move(path_ending)) {}
  ~StandingReader() override {
    for (const ReadRequest& request : held_) {
      request.sink->complete({request.tag, fail(ErrorKind::drive, "the drive was pulled out")});
    }
  }
  void submit(std::span<const ReadRequest> requests) override {
    for (const ReadRequest& request : requests) {
      const bool there = path(request.extent.file).native().ends_with(path_ending_);
      const std::scoped_lock lock(mutex_);
      if (stands_ && there) {
        held_.push_back(request);
      } else {
        inner().submit({&request, 1});
      }
    }
  }

  void stand_still() {
    const std::scoped_lock lock(mutex_);
    stands_ = true;
  }
  void go_on() {
    const std::scoped_lock lock(mutex_);
    stands_ = false;
    inner().submit(held_);
    held_.clear();
  }

 private:
  const std::string path_ending_;
  std::mutex mutex_;
  bool stands_ = false;
  std::vector<ReadRequest> held_;
};

class MirrorReaderTest : public ::testing::TestWithParam<Way> {
 protected:
  std::unique_ptr<Reader> plain(const System& system = operating_system()) {
    ReaderOptions options;
    options.direct = GetParam().direct;
    options.system = &system;
    return *make_reader(GetParam().mode, options);
  }

  static constexpr std::size_t kReads = 8;  // more than a drive is asked for at once

  /// A mirror one of whose two drives stands still.
  struct Standing {
    std::unique_ptr<FaultySystem> system;  // outlives the reader
    StandingReader* inner = nullptr;       // the reader's
    std::unique_ptr<Reader> reader;
    FileId file = 0;
  };
  Standing stand_still(const Copies& copies, std::chrono::milliseconds patience) {
    Standing standing;
    standing.system =
        std::make_unique<FaultySystem>(std::vector<SystemFault>{{.path_ending = "drive-0/data"}});
    auto inner = std::make_unique<StandingReader>(
        make_fault_reader(plain(*standing.system), {.drives = copies.drives}), "drive-1/data");
    standing.inner = inner.get();
    standing.reader = make_mirror_reader(std::move(inner), copies.mirrored(), patience);
    standing.file = *standing.reader->open(copies.paths[0]);
    // Each of these asks the first drive first, which gives nothing however often it is asked. So
    // it is left alone after them, and all counts on the second one.
    standing.system->arm();
    for (int i = 0; i < MirrorQueue::kFailures; ++i) expect_file(*standing.reader, standing.file);
    standing.system->disarm();
    standing.inner->stand_still();
    return standing;
  }
};

TEST_P(MirrorReaderTest, every_byte_arrives_whichever_copy_gives_it) {
  const Copies copies(3);
  const auto reader = make_mirror_reader(
      make_fault_reader(plain(),
                        {.max_delay = std::chrono::microseconds(500), .drives = copies.drives}),
      copies.mirrored());
  const auto file = reader->open(copies.paths[0]);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(reader->size(*file), kFileSize);
  EXPECT_EQ(reader->path(*file), copies.paths[0]);
  expect_file(*reader, *file);
  const ReaderStatistics statistics = reader->statistics();
  ASSERT_EQ(statistics.files.size(), 3u);
  // Who gives how much is a matter of speed (mirror_queue_test.cc), but for the first parts of all.
  for (const FileStatistics& each : statistics.files) {
    EXPECT_GT(each.bytes, 0u) << each.path << ": each drive gets one part for trial";
  }
  for (int round = 0; round < 3; ++round) expect_all_bytes(*reader, *file);
}

TEST_P(MirrorReaderTest, a_copy_that_fails_is_replaced_by_the_other) {
  const Copies copies(2);
  for (const char* failing : {"drive-0/data", "drive-1/data"}) {
    const auto reader = make_mirror_reader(
        make_fault_reader(plain(), {.faults = {{.path_ending = failing, .from = 2}},
                                    .max_delay = std::chrono::microseconds(200),
                                    .drives = copies.drives}),
        copies.mirrored());
    const auto file = reader->open(copies.paths[0]);
    ASSERT_TRUE(file.has_value());
    expect_all_bytes(*reader, *file);
    expect_all_bytes(*reader, *file);
  }
}

/// Shows its races only under the thread sanitizer.
TEST_P(MirrorReaderTest, what_arrives_meanwhile_can_be_promoted) {
  const Copies copies(2);
  const auto reader = make_mirror_reader(plain(), copies.mirrored());
  const auto file = reader->open(copies.paths[0]);
  ASSERT_TRUE(file.has_value());
  Collector sink;
  Batch batch(*reader, sink);
  for (std::size_t i = 0; i < 200; ++i) batch.add({*file, i * 100, 50}, 7, Priority::guess);
  reader->submit(batch.requests());
  while (sink.so_far().size() < batch.size()) reader->promote(sink, 7);
  for (const Completion& completion : sink.so_far()) EXPECT_TRUE(completion.bytes.has_value());
}

TEST_P(MirrorReaderTest, what_waits_for_a_drive_that_stands_still_is_given_by_another) {
  const Copies copies(2);
  const Standing standing = stand_still(copies, std::chrono::milliseconds(20));
  Collector sink;
  Batch batch(*standing.reader, sink);
  for (std::size_t i = 0; i < kReads; ++i) batch.add({standing.file, 0, kFileSize}, i);
  standing.reader->submit(batch.requests());
  sink.wait_for(1);
  standing.inner->go_on();
  sink.wait_for(kReads);
  for (const Completion& completion : sink.so_far()) {
    ASSERT_TRUE(completion.bytes.has_value()) << completion.bytes.error().message;
    EXPECT_TRUE(is_in_file(*completion.bytes, 0));
  }
}

TEST_P(MirrorReaderTest, reads_that_fail_while_the_reader_goes_away_end_as_well) {
  const Copies copies(2);
  Standing standing = stand_still(copies, std::chrono::hours(1));
  Collector sink;
  Batch batch(*standing.reader, sink);
  for (std::size_t i = 0; i < kReads; ++i) batch.add({standing.file, 0, kFileSize}, i);
  standing.reader->submit(batch.requests());
  standing.reader.reset();
  const auto ended = sink.so_far();
  ASSERT_EQ(ended.size(), kReads);
  for (const Completion& completion : ended) EXPECT_FALSE(completion.bytes.has_value());
}

TEST_P(MirrorReaderTest, a_copy_that_is_cut_short_in_mid_run_is_replaced_by_the_other) {
  const Copies copies(2);
  const auto reader = make_mirror_reader(plain(), copies.mirrored());
  const auto file = reader->open(copies.paths[0]);
  ASSERT_TRUE(file.has_value());
  expect_all_bytes(*reader, *file);
  fs::resize_file(copies.paths[1], 4096);
  expect_all_bytes(*reader, *file);
}

TEST_P(MirrorReaderTest, errors_of_the_system_are_retried_and_counted) {
  const Copies copies(2);
  FaultySystem system({{.path_ending = "drive-0/data", .every = 3}});
  const auto reader = make_mirror_reader(plain(system), copies.mirrored());
  const auto file = reader->open(copies.paths[0]);
  ASSERT_TRUE(file.has_value());
  system.arm();
  for (int round = 0; round < 3; ++round) expect_all_bytes(*reader, *file);
  EXPECT_GT(system.hits(), 0u);
  const ReaderStatistics statistics = reader->statistics();
  ASSERT_EQ(statistics.drives.size(), 1u);
  EXPECT_GT(statistics.drives[0].faults, 0u);
}

TEST_P(MirrorReaderTest, when_no_copy_is_left_the_request_says_what_each_answered) {
  const Copies copies(2);
  const auto reader = make_mirror_reader(
      make_fault_reader(plain(), {.faults = {{.path_part = "drive-"}}, .drives = copies.drives}),
      copies.mirrored());
  const auto file = reader->open(copies.paths[0]);
  ASSERT_TRUE(file.has_value());
  const Room room(reader->room_for(kFileSize));
  const auto bytes = read_now(*reader, {*file, 0, kFileSize}, room.bytes(), Purpose::other);
  ASSERT_FALSE(bytes.has_value());
  EXPECT_EQ(bytes.error().kind, ErrorKind::drive);
  for (const char* part : {"no copy of", "drive-0/data", "drive-1/data"}) {
    EXPECT_NE(bytes.error().message.find(part), std::string::npos) << bytes.error().message;
  }
  EXPECT_EQ(reader->statistics().requested_bytes[static_cast<std::size_t>(Purpose::other)], 0u);
}

TEST_P(MirrorReaderTest, an_extent_outside_the_file_is_refused_and_not_retried) {
  const Copies copies(2);
  const auto reader = make_mirror_reader(plain(), copies.mirrored());
  const auto file = reader->open(copies.paths[0]);
  const Room room(reader->room_for(1000));
  const auto bytes = read_now(*reader, {*file, kFileSize - 10, 11}, room.bytes(), Purpose::other);
  ASSERT_FALSE(bytes.has_value());
  EXPECT_EQ(bytes.error().kind, ErrorKind::model_files);
}

TEST_P(MirrorReaderTest, files_without_copies_are_read_where_they_are) {
  const Copies copies(2);
  const auto alone = copies.folder.file("alone", kFileSize);
  const auto reader = make_mirror_reader(plain(), copies.mirrored());
  const auto mirrored = reader->open(copies.paths[0]);
  const auto file = reader->open(alone);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(*reader->open(alone), *file);
  expect_all_bytes(*reader, *file);
  expect_all_bytes(*reader, *mirrored);
  ASSERT_FALSE(reader->open(copies.folder.path() / "missing").has_value());
}

TEST_P(MirrorReaderTest, a_copy_that_cannot_be_opened_is_left_out) {
  const Copies copies(2);
  fs::remove(copies.paths[1]);
  const auto reader = make_mirror_reader(plain(), copies.mirrored());
  const auto file = reader->open(copies.paths[0]);
  ASSERT_TRUE(file.has_value());
  expect_all_bytes(*reader, *file);
}

TEST_P(MirrorReaderTest, cancel_settles_everything_and_leaves_the_others_alone) {
  const Copies copies(2);
  auto reader = make_mirror_reader(
      make_fault_reader(plain(), {.faults = {{.path_ending = "drive-1/data", .every = 5}},
                                  .max_delay = std::chrono::microseconds(2000),
                                  .drives = copies.drives}),
      copies.mirrored());
  const auto file = reader->open(copies.paths[0]);
  Collector cancelled;
  Collector kept;
  Collector left;
  Batch first(*reader, cancelled);
  Batch second(*reader, kept);
  Batch third(*reader, left);
  for (std::uint64_t tag = 0; tag < 12; ++tag) {
    first.add({*file, tag, kFileSize - 100}, tag, Priority::guess);
    second.add({*file, tag, kFileSize - 100}, tag, Priority::read_ahead);
    third.add({*file, tag, kFileSize - 100}, tag, Priority::guess);
  }
  reader->submit(first.requests());
  reader->submit(second.requests());
  reader->submit(third.requests());
  reader->promote(kept, 3);
  reader->cancel(cancelled);
  const auto settled = cancelled.so_far();
  ASSERT_EQ(settled.size(), 12u);
  for (const Completion& completion : settled) {
    if (completion.bytes) {
      EXPECT_TRUE(is_in_file(*completion.bytes, completion.tag));
    } else {
      EXPECT_EQ(completion.bytes.error().kind, ErrorKind::interrupted);
    }
  }
  for (const Completion& completion : kept.wait_for(12)) {
    ASSERT_TRUE(completion.bytes.has_value()) << completion.bytes.error().message;
    EXPECT_TRUE(is_in_file(*completion.bytes, completion.tag));
  }
  reader.reset();
  EXPECT_EQ(left.so_far().size(), 12u);
}

TEST_P(MirrorReaderTest, statistics_count_each_byte_once_by_purpose_priority_and_drive) {
  const Copies copies(2);
  const auto reader = make_mirror_reader(plain(), copies.mirrored());
  const auto file = reader->open(copies.paths[0]);
  const std::uint64_t length = 4096 * 800;
  Collector sink;
  Batch batch(*reader, sink);
  for (std::size_t i = 0; i < kPriorities; ++i) {
    batch.add({*file, 0, length}, i, static_cast<Priority>(i));
  }
  reader->submit(batch.requests());
  sink.wait_for(kPriorities);
  const ReaderStatistics statistics = reader->statistics();
  for (std::size_t i = 0; i < kPriorities; ++i) {
    EXPECT_EQ(statistics.delivered_bytes[i], length);
    EXPECT_EQ(statistics.drives.at(0).bytes_by_priority[i], length);
  }
  EXPECT_EQ(statistics.requested_bytes[static_cast<std::size_t>(Purpose::other)], 3 * length);
  EXPECT_EQ(statistics.drives.at(0).bytes, 3 * length);
}

INSTANTIATE_TEST_SUITE_P(Ways, MirrorReaderTest, ::testing::ValuesIn(testing::all_ways()),
                         testing::way_name);

}  // namespace
}  // namespace sluice::io
