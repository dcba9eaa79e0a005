#include "io/fault_reader.h"

#include <algorithm>
#include <thread>

#include "io/make_reader.h"
#include "io_testing.h"

namespace sluice::io {
namespace {

using testing::Batch;
using testing::Collector;
using testing::is_content;
using testing::Room;
using testing::TempFolder;

std::unique_ptr<Reader> faulty(ReadFaults faults) {
  return make_fault_reader(*make_reader(IoMode::pread), std::move(faults));
}

TEST(FaultReader, delays_change_the_order_and_never_the_bytes) {
  constexpr std::uint64_t kReads = 64;
  constexpr std::uint64_t kBytes = 900;
  const TempFolder folder;
  // Beside such delays it is nothing when the drive gives a read. None is waited for in the end.
  auto reader = faulty({.max_delay = std::chrono::hours(24), .seed = 5});
  const auto file = reader->open(folder.file("data", 100000));
  Collector sink;
  Batch batch(*reader, sink);
  for (std::uint64_t tag = 0; tag < kReads; ++tag) batch.add({*file, tag * 1000, kBytes}, tag);
  reader->submit(batch.requests());
  const auto given = [&] {
    return reader->statistics().requested_bytes[static_cast<std::size_t>(Purpose::other)];
  };
  while (given() < kReads * kBytes) std::this_thread::yield();
  reader.reset();
  std::vector<std::uint64_t> order;
  for (const Completion& completion : sink.wait_for(kReads)) {
    order.push_back(completion.tag);
    ASSERT_TRUE(completion.bytes.has_value());
    EXPECT_TRUE(is_content(*completion.bytes, completion.tag * 1000));
  }
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (std::uint64_t tag = 0; tag < kReads; ++tag) EXPECT_EQ(order[tag], tag);
}

TEST(FaultReader, the_nth_read_of_a_file_fails) {
  const TempFolder folder;
  auto reader = faulty({.faults = {{.path_ending = "bad", .from = 2, .count = 1}}});
  const auto good = reader->open(folder.file("good", 1000));
  const auto bad = reader->open(folder.file("bad", 1000));
  const Room room(reader->room_for(1000));
  std::vector<bool> results;
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(read_now(*reader, {*good, 0, 1000}, room.bytes(), Purpose::other).has_value());
    const auto bytes = read_now(*reader, {*bad, 0, 1000}, room.bytes(), Purpose::other);
    results.push_back(bytes.has_value());
    if (!bytes) {
      EXPECT_EQ(bytes.error().kind, ErrorKind::drive);
      EXPECT_NE(bytes.error().message.find("bad"), std::string::npos);
    }
  }
  EXPECT_EQ(results, (std::vector<bool>{true, true, false, true}));
}

TEST(FaultReader, a_file_that_shrinks_fails_beyond_its_new_end_only) {
  const TempFolder folder;
  auto reader =
      faulty({.faults = {{.kind = ReadFault::Kind::shrink, .path_ending = "data", .size = 600}}});
  const auto file = reader->open(folder.file("data", 1000));
  const Room room(reader->room_for(1000));
  EXPECT_TRUE(read_now(*reader, {*file, 0, 600}, room.bytes(), Purpose::other).has_value());
  const auto bytes = read_now(*reader, {*file, 500, 101}, room.bytes(), Purpose::other);
  ASSERT_FALSE(bytes.has_value());
  EXPECT_NE(bytes.error().message.find("wanted 101 bytes at offset 500, got 100"),
            std::string::npos)
      << bytes.error().message;
}

TEST(FaultReader, cancel_and_the_end_settle_what_is_delayed) {
  const TempFolder folder;
  Collector cancelled;
  Collector left;
  auto reader = faulty({.faults = {{.every = 3}}, .max_delay = std::chrono::microseconds(5000)});
  const auto file = reader->open(folder.file("data", 100000));
  Batch first(*reader, cancelled);
  Batch second(*reader, left);
  for (std::uint64_t tag = 0; tag < 50; ++tag) {
    first.add({*file, 0, 100000}, tag, Priority::guess);
    second.add({*file, 0, 100000}, tag, Priority::guess);
  }
  reader->submit(first.requests());
  reader->submit(second.requests());
  reader->promote(left, 30);
  reader->cancel(cancelled);
  EXPECT_EQ(cancelled.so_far().size(), 50u);
  reader.reset();
  EXPECT_EQ(left.so_far().size(), 50u);
}

}  // namespace
}  // namespace sluice::io
