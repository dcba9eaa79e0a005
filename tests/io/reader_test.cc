// The promises of the Reader interface, for every way of reading.

#include "io/reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <set>
#include <thread>

#include "base/memory_info.h"
#include "io/faulty_system.h"
#include "io/make_reader.h"
#include "io_testing.h"
#include "reader_ways.h"

namespace sluice::io {
namespace {

using testing::Batch;
using testing::Collector;
using testing::is_content;
using testing::Room;
using testing::TempFolder;
using testing::Way;

class ReaderTest : public ::testing::TestWithParam<Way> {
 protected:
  /// Small pieces, so that small files take the paths of large ones.
  ReaderOptions options() const {
    ReaderOptions options;
    options.direct = GetParam().direct;
    options.threads = 3;
    options.piece_bytes = 8192;
    return options;
  }
  std::unique_ptr<Reader> make(const ReaderOptions& with) const {
    Result<std::unique_ptr<Reader>> reader = make_reader(GetParam().mode, with);
    EXPECT_TRUE(reader.has_value());
    return *std::move(reader);
  }
  std::unique_ptr<Reader> make() const { return make(options()); }

  /// Reads one extent of the file and expects the file's content.
  static void expect_content(Reader& reader, FileId file, std::uint64_t offset,
                             std::uint64_t length) {
    const Room room(reader.room_for(length));
    const auto bytes = read_now(reader, {file, offset, length}, room.bytes(), Purpose::other);
    ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
    ASSERT_EQ(bytes->size(), length);
    EXPECT_GE(bytes->data(), room.bytes().data());
    EXPECT_LE(bytes->data() + length, room.bytes().data() + room.bytes().size());
    EXPECT_TRUE(is_content(*bytes, offset)) << "extent " << offset << " + " << length;
  }

  static Error expect_error(Reader& reader, Extent extent, ErrorKind kind) {
    const Room room(reader.room_for(1 << 20));
    const auto bytes = read_now(reader, extent, room.bytes(), Purpose::other);
    EXPECT_FALSE(bytes.has_value());
    if (bytes) return {kind, ""};
    EXPECT_EQ(bytes.error().kind, kind) << bytes.error().message;
    return bytes.error();
  }

  const TempFolder folder_;
};

TEST_P(ReaderTest, any_extent_of_any_alignment_up_to_an_unaligned_end) {
  auto reader = make();
  for (const std::uint64_t size :
       {1u, 101u, 4095u, 4096u, 4097u, 4197u, 40959u, 40960u, 40961u, 41061u}) {
    const auto file = reader->open(folder_.file("size" + std::to_string(size), size));
    ASSERT_TRUE(file.has_value());
    EXPECT_EQ(reader->size(*file), size);
    for (const std::uint64_t offset : {0u, 1u, 511u, 512u, 4095u, 4096u, 4097u, 12345u, 40958u}) {
      for (const std::uint64_t length : {1u, 512u, 4096u, 4097u, 9000u, 30000u, 1u << 20}) {
        if (offset >= size) continue;
        expect_content(*reader, *file, offset, std::min(length, size - offset));
      }
    }
  }
}

TEST_P(ReaderTest, an_extent_of_no_bytes_completes_with_no_bytes) {
  auto reader = make();
  const auto file = reader->open(folder_.file("data", 10000));
  expect_content(*reader, *file, 777, 0);
  expect_content(*reader, *file, 10000, 0);
  const auto empty = reader->open(folder_.file("empty", 0));
  ASSERT_TRUE(empty.has_value());
  expect_content(*reader, *empty, 0, 0);
}

TEST_P(ReaderTest, an_extent_that_crosses_the_end_of_the_file_is_an_error) {
  auto reader = make();
  const auto file = reader->open(folder_.file("data", 10000));
  const std::uint64_t far = ~std::uint64_t{0};
  for (const auto& [offset, length] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {9999, 2}, {10000, 1}, {0, 10001}, {20000, 1}, {far, 1}, {far - 10, 100}}) {
    const Error error = expect_error(*reader, {*file, offset, length}, ErrorKind::model_files);
    EXPECT_NE(error.message.find("data"), std::string::npos);
    EXPECT_NE(error.message.find("10000"), std::string::npos);
  }
}

TEST_P(ReaderTest, a_missing_file_does_not_open) {
  auto reader = make();
  const auto file = reader->open(folder_.path() / "missing");
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().kind, ErrorKind::model_files);
}

TEST_P(ReaderTest, the_same_path_gives_the_same_id) {
  auto reader = make();
  const auto path = folder_.file("data", 100);
  const auto first = reader->open(path);
  EXPECT_EQ(*reader->open(folder_.file("other", 100)), *first + 1);
  EXPECT_EQ(*reader->open(path), *first);
  EXPECT_EQ(reader->path(*first), path);
}

TEST_P(ReaderTest, many_requests_from_many_threads_all_arrive_with_their_own_bytes) {
  constexpr std::uint64_t kSize = 300001;
  constexpr std::size_t kEach = 100;
  auto reader = make();
  const auto file = reader->open(folder_.file("data", kSize));
  Collector sinks[4];
  std::vector<Batch> batches;
  for (auto& sink : sinks) batches.emplace_back(*reader, sink);
  std::mt19937_64 random(7);
  for (Batch& batch : batches) {
    for (std::uint64_t tag = 0; tag < kEach; ++tag) {
      const std::uint64_t offset = random() % kSize;
      const std::uint64_t length = random() % std::min<std::uint64_t>(kSize - offset, 50000);
      batch.add({*file, offset, length}, tag, static_cast<Priority>(random() % kPriorities));
    }
  }
  std::vector<std::thread> threads;
  for (const Batch& batch : batches) {
    threads.emplace_back([&] { reader->submit(batch.requests()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < batches.size(); ++i) {
    std::vector<int> seen(kEach, 0);
    for (const Completion& completion : sinks[i].wait_for(kEach)) {
      const Extent& extent = batches[i].requests()[completion.tag].extent;
      ++seen[completion.tag];
      ASSERT_TRUE(completion.bytes.has_value());
      ASSERT_EQ(completion.bytes->size(), extent.length);
      EXPECT_TRUE(is_content(*completion.bytes, extent.offset));
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::ptrdiff_t>(kEach));
  }
}

TEST_P(ReaderTest, offsets_beyond_4_gib_are_read_where_they_are) {
  constexpr std::uint64_t kOffset = (std::uint64_t{5} << 30) + 123;
  const auto path = folder_.file("sparse", 0);
  std::filesystem::resize_file(path, kOffset);
  {
    std::ofstream out(path, std::ios::binary | std::ios::app);
    for (std::uint64_t i = 0; i < 20000; ++i)
      out.put(static_cast<char>(testing::content_at(kOffset + i)));
  }
  auto reader = make();
  const auto file = reader->open(path);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(reader->size(*file), kOffset + 20000);
  expect_content(*reader, *file, kOffset, 20000);
  expect_content(*reader, *file, kOffset + 9000, 100);
}

// Linux reads at most 2 GiB - 4 KiB per call: a small limit takes the same path through the code.
TEST_P(ReaderTest, extents_larger_than_one_system_call_may_read_arrive_whole) {
  ReaderOptions with = options();
  with.max_call_bytes = 4096;
  with.piece_bytes = 1 << 20;
  auto reader = make(with);
  const auto file = reader->open(folder_.file("data", 200101));
  expect_content(*reader, *file, 0, 200101);
  expect_content(*reader, *file, 4095, 100000);
}

TEST_P(ReaderTest, a_file_cut_in_mid_run_is_an_error_and_never_zeros) {
  auto reader = make();
  const auto path = folder_.file("data", 100000);
  const auto file = reader->open(path);
  expect_content(*reader, *file, 50000, 1000);
  for (const std::uint64_t left : {50500u, 49152u, 4096u, 100u, 0u}) {
    std::filesystem::resize_file(path, left);
    const Error error = expect_error(*reader, {*file, 50000, 1000}, ErrorKind::drive);
    EXPECT_NE(error.message.find("shorter than when it was opened"), std::string::npos)
        << error.message;
    EXPECT_NE(error.message.find("data"), std::string::npos);
    if (left > 0) expect_content(*reader, *file, left / 2, left - left / 2);
  }
}

TEST_P(ReaderTest, reads_go_on_after_one_that_failed) {
  auto reader = make();
  const auto good = reader->open(folder_.file("good", 50000));
  const auto path = folder_.file("bad", 50000);
  const auto bad = reader->open(path);
  std::filesystem::resize_file(path, 10);
  expect_error(*reader, {*bad, 0, 50000}, ErrorKind::drive);
  expect_content(*reader, *good, 0, 50000);
}

TEST_P(ReaderTest, statistics_count_what_was_delivered_and_what_it_cost) {
  auto reader = make();
  const auto first = reader->open(folder_.file("first", 50000));
  const auto second = reader->open(folder_.file("second", 50000));
  const Room room(reader->room_for(20000));
  ASSERT_TRUE(read_now(*reader, {*first, 100, 20000}, room.bytes(), Purpose::trunk));
  ASSERT_TRUE(read_now(*reader, {*first, 7, 3}, room.bytes(), Purpose::expert));
  ASSERT_FALSE(read_now(*reader, {*second, 50000, 1}, room.bytes(), Purpose::expert));
  const ReaderStatistics statistics = reader->statistics();
  EXPECT_EQ(statistics.requested_bytes[static_cast<int>(Purpose::trunk)], 20000u);
  EXPECT_EQ(statistics.requested_bytes[static_cast<int>(Purpose::expert)], 3u);
  EXPECT_EQ(statistics.requested_bytes[static_cast<int>(Purpose::other)], 0u);
  ASSERT_EQ(statistics.files.size(), 2u);
  EXPECT_EQ(statistics.files[0].reads, 2u);
  EXPECT_GE(statistics.files[0].bytes, 20003u);
  EXPECT_LE(statistics.files[0].bytes, 20003u + 4 * 4096u);
  EXPECT_EQ(statistics.files[0].faults, 0u);
  EXPECT_EQ(statistics.files[1].reads, 0u);
  EXPECT_EQ(statistics.files[1].faults, 1u);
  ASSERT_EQ(statistics.drives.size(), 1u);
  EXPECT_EQ(statistics.drives[0].reads, 2u);
  EXPECT_EQ(statistics.drives[0].bytes, statistics.files[0].bytes);
  EXPECT_EQ(statistics.drives[0].path, folder_.path().string());
  EXPECT_GT(statistics.drives[0].busy_s, 0);
  if (!GetParam().direct) {
    EXPECT_FALSE(statistics.drives[0].direct);
  }
  EXPECT_GT(reader->memory_bytes(), 0u);
}

TEST_P(ReaderTest, costs_a_budget_at_most_four_megabytes_per_drive) {
  ReaderOptions with;
  with.direct = GetParam().direct;
  const auto reader = make(with);
  ASSERT_TRUE(reader->open(folder_.file("data", 100000)));
  EXPECT_GT(reader->memory_bytes(), 0u);
  constexpr std::size_t kWatch = std::size_t{128} << 10;  // of the reader, not of each drive
  EXPECT_LE(reader->memory_bytes(), (std::size_t{4} << 20) + kWatch);
}

TEST_P(ReaderTest, cancel_settles_every_request_of_the_sink_and_no_other) {
  FaultySystem system(
      {{.kind = SystemFault::Kind::delay, .max_delay = std::chrono::microseconds(500)}});
  ReaderOptions with = options();
  with.system = &system;
  auto reader = make(with);
  const auto file = reader->open(folder_.file("data", 100000));
  system.arm();
  Collector dropped;
  Collector kept;
  Batch drop_batch(*reader, dropped);
  Batch keep_batch(*reader, kept);
  for (std::uint64_t tag = 0; tag < 50; ++tag) {
    drop_batch.add({*file, tag * 100, 60000}, tag, Priority::read_ahead);
    keep_batch.add({*file, tag * 100, 6000}, tag, Priority::guess);
  }
  reader->submit(drop_batch.requests());
  reader->submit(keep_batch.requests());
  reader->cancel(dropped);
  const auto completions = dropped.so_far();  // all are there when cancel() returns
  ASSERT_EQ(completions.size(), 50u);
  for (const Completion& completion : completions) {
    if (completion.bytes) {
      EXPECT_TRUE(is_content(*completion.bytes, completion.tag * 100));
    } else {
      EXPECT_EQ(completion.bytes.error().kind, ErrorKind::interrupted);
    }
  }
  for (const Completion& completion : kept.wait_for(50)) {
    EXPECT_TRUE(completion.bytes.has_value());
  }
  reader->cancel(dropped);  // with nothing outstanding
}

TEST_P(ReaderTest, every_request_is_settled_when_the_reader_goes) {
  Collector sink;
  auto reader = make();
  const auto file = reader->open(folder_.file("data", 100000));
  Batch batch(*reader, sink);
  for (std::uint64_t tag = 0; tag < 200; ++tag) batch.add({*file, 0, 100000}, tag);
  reader->submit(batch.requests());
  reader.reset();
  EXPECT_EQ(sink.so_far().size(), 200u);
}

TEST_P(ReaderTest, all_readers_use_pieces_and_rooms_of_the_same_cheap_size) {
  auto reader = make();
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4096},
                                     std::uint64_t{17547264}, std::uint64_t{5} << 30}) {
    EXPECT_GE(reader->room_for(length), length);
    EXPECT_LE(reader->room_for(length), length + 2 * 4096);
  }
}

TEST_P(ReaderTest, drives_are_told_apart) {
  const std::filesystem::path other = "/dev/shm";
  struct stat here;
  struct stat there;
  if (::stat(folder_.path().c_str(), &here) != 0 || ::stat(other.c_str(), &there) != 0 ||
      here.st_dev == there.st_dev || ::access(other.c_str(), W_OK) != 0) {
    GTEST_SKIP() << "no second file system to write to";
  }
  const TempFolder second_folder(other);
  auto reader = make();
  const auto first = reader->open(folder_.file("data", 50000));
  const auto second = reader->open(second_folder.file("data", 50000));
  ASSERT_TRUE(first.has_value() && second.has_value());
  expect_content(*reader, *first, 0, 50000);
  expect_content(*reader, *second, 0, 50000);
  expect_content(*reader, *second, 1, 2);
  const ReaderStatistics statistics = reader->statistics();
  ASSERT_EQ(statistics.drives.size(), 2u);
  EXPECT_EQ(statistics.drives[0].reads, 1u);
  EXPECT_EQ(statistics.drives[1].reads, 2u);
  EXPECT_EQ(statistics.drives[1].path, second_folder.path().string());
}

// Pages of the page cache and of mappings count against a control group, and mapped ones against
// the process: what was copied must be let go.
TEST_P(ReaderTest, what_was_read_does_not_stay_in_the_process) {
#ifdef SLUICE_MEMORY_OF_OTHERS
  GTEST_SKIP() << "the sanitizer keeps memory of its own";
#endif
  constexpr std::uint64_t kExtent = 4 << 20;
  constexpr std::uint64_t kExtents = 32;
  const auto path = folder_.file("sparse", 0);
  std::filesystem::resize_file(path, kExtent * kExtents);
  auto reader = make();
  const auto file = reader->open(path);
  const Room room(reader->room_for(kExtent));
  const auto read = [&](std::uint64_t extent) {
    ASSERT_TRUE(read_now(*reader, {*file, extent * kExtent, kExtent}, room.bytes(), Purpose::other)
                    .has_value());
  };
  read(0);
  const std::uint64_t before = resident_memory();
  for (std::uint64_t extent = 1; extent < kExtents; ++extent) read(extent);
  EXPECT_LT(resident_memory(), before + 8 * kExtent);
}

TEST_P(ReaderTest, small_reads_bring_no_neighbours_that_stay) {
#ifdef SLUICE_MEMORY_OF_OTHERS
  GTEST_SKIP() << "the sanitizer keeps memory of its own";
#endif
  constexpr std::uint64_t kBytes = 32 << 20;
  constexpr std::uint64_t kApart = 48 << 10;
  const auto path = folder_.file("data", kBytes);  // in the page cache, as it was just written
  auto reader = make();
  const auto file = reader->open(path);
  const Room room(reader->room_for(100));
  const auto read = [&](std::uint64_t offset) {
    ASSERT_TRUE(read_now(*reader, {*file, offset, 100}, room.bytes(), Purpose::other).has_value());
  };
  read(0);
  const std::uint64_t before = resident_memory();
  for (std::uint64_t offset = kApart; offset + 100 < kBytes; offset += kApart) read(offset);
  EXPECT_LT(resident_memory(), before + (4 << 20));
}

/// Notes for which ranges the page cache is told to let go.
class DropWatcher final : public System {
 public:
  void drop_cache(int, std::uint64_t offset, std::uint64_t length) const override {
    const std::scoped_lock lock(mutex_);
    for (std::uint64_t page = offset / 4096; page * 4096 < offset + length; ++page) {
      dropped_.insert(page);
    }
  }
  std::size_t pages() const {
    const std::scoped_lock lock(mutex_);
    return dropped_.size();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::set<std::uint64_t> dropped_;
};

TEST_P(ReaderTest, buffered_reads_drop_the_page_cache_behind_them) {
  if (GetParam().direct || GetParam().mode == IoMode::mmap) GTEST_SKIP() << "not a buffered way";
  DropWatcher system;
  ReaderOptions with = options();
  with.system = &system;
  auto reader = make(with);
  const auto file = reader->open(folder_.file("data", 100101));
  expect_content(*reader, *file, 0, 100101);
  EXPECT_EQ(system.pages(), (100101u + 4095) / 4096);
}

INSTANTIATE_TEST_SUITE_P(All, ReaderTest, ::testing::ValuesIn(testing::all_ways()),
                         testing::way_name);

// Faults at the border to the system -----------------------------------------------------------

class FaultTest : public ReaderTest {
 protected:
  using Kind = SystemFault::Kind;

  /// Reads all of a file of 100101 bytes in pieces of 8 KiB while `faults` happen.
  Result<std::vector<std::byte>> read(std::vector<SystemFault> faults, bool armed_from_the_start) {
    FaultySystem system(std::move(faults));
    ReaderOptions with = options();
    with.system = &system;
    if (armed_from_the_start) system.arm();
    auto reader = make(with);
    const auto path = folder_.file("data", kSize);
    SLUICE_ASSIGN(const FileId file, reader->open(path));
    system.arm();
    const Room room(reader->room_for(kSize));
    const auto bytes = read_now(*reader, {file, 0, kSize}, room.bytes(), Purpose::other);
    hits_ = system.hits();
    faults_counted_ = reader->statistics().files[0].faults;
    direct_ = reader->statistics().files[0].direct;
    if (!bytes) return tl::unexpected(bytes.error());
    return std::vector<std::byte>(bytes->begin(), bytes->end());
  }

  void expect_whole(const std::vector<SystemFault>& faults) {
    const auto bytes = read(faults, false);
    ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
    EXPECT_TRUE(is_content(*bytes, 0));
    EXPECT_GT(hits_, 0u);
    EXPECT_EQ(faults_counted_, 0u);
  }

  static constexpr std::uint64_t kSize = 100101;
  std::uint64_t hits_ = 0;
  std::uint64_t faults_counted_ = 0;
  bool direct_ = false;
};

TEST_P(FaultTest, short_reads_are_continued) {
  expect_whole({{.kind = Kind::short_read, .every = 2}});
  expect_whole({{.kind = Kind::short_read}});
}

TEST_P(FaultTest, signals_are_no_errors) {
  expect_whole({{.kind = Kind::interrupted, .every = 2}});
}

TEST_P(FaultTest, a_full_queue_is_tried_again) {
  expect_whole({{.kind = Kind::again, .every = 3}});
}

TEST_P(FaultTest, late_reads_arrive) {
  expect_whole({{.kind = Kind::delay, .max_delay = std::chrono::microseconds(300)}});
}

TEST_P(FaultTest, an_end_before_the_end_names_file_offset_wanted_and_got) {
  std::vector<SystemFault> faults = {{.kind = Kind::shrink, .size = 33000}};
  // A mapping has no reads that bring nothing.
  if (GetParam().mode != IoMode::mmap) faults.push_back({.kind = Kind::end_of_file, .from = 4});
  for (const SystemFault& fault : faults) {
    const auto bytes = read({fault}, false);
    ASSERT_FALSE(bytes.has_value());
    EXPECT_EQ(bytes.error().kind, ErrorKind::drive);
    const std::string& message = bytes.error().message;
    for (const char* part :
         {"data", "shorter than when it was opened", "offset", "wanted", "got"}) {
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
    EXPECT_EQ(faults_counted_, 1u);
  }
}

TEST_P(FaultTest, a_failed_read_names_file_offset_and_reason) {
  const auto bytes = read({{.kind = Kind::error, .from = 5, .count = 1}}, false);
  ASSERT_FALSE(bytes.has_value());
  EXPECT_EQ(bytes.error().kind, ErrorKind::drive);
  for (const char* part : {"data", "offset", "Input/output error"}) {
    EXPECT_NE(bytes.error().message.find(part), std::string::npos) << bytes.error().message;
  }
  EXPECT_EQ(faults_counted_, 1u);
}

TEST_P(FaultTest, a_drive_that_only_says_try_again_ends_in_an_error) {
  const auto bytes = read({{.kind = Kind::again}}, false);
  ASSERT_FALSE(bytes.has_value());
  EXPECT_EQ(bytes.error().kind, ErrorKind::drive);
}

TEST_P(FaultTest, a_system_that_refuses_the_means_of_a_reader_is_read_by_others) {
  for (const int error : {EPERM, ENOSYS}) {
    const auto bytes = read({{.kind = Kind::refuse_ring, .error_number = error},
                             {.kind = Kind::refuse_copy, .error_number = error}},
                            true);
    ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
    EXPECT_TRUE(is_content(*bytes, 0));
    EXPECT_EQ(hits_, GetParam().mode == IoMode::pread ? 0u : 1u);
  }
}

TEST_P(FaultTest, a_ring_that_is_full_for_the_moment_is_tried_again) {
  if (GetParam().mode != IoMode::uring) GTEST_SKIP() << "no ring";
  for (const int error : {EAGAIN, EBUSY, EINTR, ENOMEM}) {
    const auto bytes = read({{.kind = Kind::busy_ring, .every = 2, .error_number = error}}, false);
    ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
    EXPECT_TRUE(is_content(*bytes, 0));
  }
}

INSTANTIATE_TEST_SUITE_P(All, FaultTest, ::testing::ValuesIn(testing::all_ways()),
                         testing::way_name);

// Direct I/O is not taken on trust ----------------------------------------------------------------

class DirectTest : public FaultTest {
 protected:
  /// Whether the folder for temporary files takes direct I/O at all.
  bool works_here() {
    const auto bytes = read({}, false);
    EXPECT_TRUE(bytes.has_value());
    return direct_;
  }
};

TEST_P(DirectTest, refused_on_the_trial_read_means_buffered_and_said_aloud) {
  if (!works_here()) GTEST_SKIP() << "no direct I/O in the folder for temporary files";
  ::testing::internal::CaptureStderr();
  const auto bytes = read({{.kind = Kind::refuse_direct}}, true);
  const std::string said = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
  EXPECT_TRUE(is_content(*bytes, 0));
  EXPECT_EQ(hits_, 1u);
  EXPECT_FALSE(direct_);
  EXPECT_NE(said.find("direct I/O"), std::string::npos) << said;
}

TEST_P(DirectTest, refused_later_means_buffered_from_then_on) {
  if (!works_here()) GTEST_SKIP() << "no direct I/O in the folder for temporary files";
  const auto bytes = read({{.kind = Kind::refuse_direct, .from = 3}}, false);
  ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
  EXPECT_TRUE(is_content(*bytes, 0));
  EXPECT_GE(hits_, 1u);
  EXPECT_FALSE(direct_);
}

// Some kernels refuse a direct read across an unaligned end, others give what there is.
TEST_P(DirectTest, no_direct_read_crosses_the_end_of_a_file_or_leaves_the_alignment) {
  if (!works_here()) GTEST_SKIP() << "no direct I/O in the folder for temporary files";
  FaultySystem system({{.kind = Kind::strict_direct}});
  system.arm();
  ReaderOptions with = options();
  with.system = &system;
  auto reader = make(with);
  for (const std::uint64_t size : {40959u, 40960u, 40961u, 41061u, 41472u, 300u}) {
    const auto file = reader->open(folder_.file("size" + std::to_string(size), size));
    ASSERT_TRUE(file.has_value());
    expect_content(*reader, *file, 0, size);
    expect_content(*reader, *file, size / 2 + 1, size - size / 2 - 1);
    expect_content(*reader, *file, size - 1, 1);
  }
  EXPECT_EQ(system.hits(), 0u);
  EXPECT_TRUE(reader->statistics().drives[0].direct);
}

TEST_P(DirectTest, direct_reads_that_only_say_try_again_end_in_buffered_ones) {
  if (!works_here()) GTEST_SKIP() << "no direct I/O in the folder for temporary files";
  expect_whole({{.kind = Kind::again, .direct_only = true, .from = 5, .count = 60}});
}

TEST_P(DirectTest, the_notice_comes_once_per_drive) {
  if (!works_here()) GTEST_SKIP() << "no direct I/O in the folder for temporary files";
  FaultySystem system({{.kind = Kind::refuse_direct}});
  system.arm();
  ReaderOptions with = options();
  with.system = &system;
  auto reader = make(with);
  ::testing::internal::CaptureStderr();
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(reader->open(folder_.file(name, 10000)).has_value());
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  const auto first = said.find("direct I/O");
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("direct I/O", first + 1), std::string::npos) << said;
}

TEST_P(DirectTest, one_file_that_refuses_leaves_the_others_direct) {
  if (!works_here()) GTEST_SKIP() << "no direct I/O in the folder for temporary files";
  FaultySystem system({{.kind = Kind::refuse_direct, .path_ending = "odd"}});
  system.arm();
  ReaderOptions with = options();
  with.system = &system;
  auto reader = make(with);
  ASSERT_TRUE(reader->open(folder_.file("odd", 10000)).has_value());
  ASSERT_TRUE(reader->open(folder_.file("good", 10000)).has_value());
  const ReaderStatistics statistics = reader->statistics();
  EXPECT_FALSE(statistics.files[0].direct);
  EXPECT_TRUE(statistics.files[1].direct);
  EXPECT_FALSE(statistics.drives[0].direct);
}

INSTANTIATE_TEST_SUITE_P(All, DirectTest, ::testing::ValuesIn(testing::direct_ways()),
                         testing::way_name);

}  // namespace
}  // namespace sluice::io
