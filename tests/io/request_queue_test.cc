// What becomes of requests that wait, without a thread that could be quick or slow to read them.
#include "io/request_queue.h"

#include "io/direct_file.h"
#include "io_testing.h"

namespace sluice::io {
namespace {

TEST(RequestQueue, what_waits_when_its_sink_is_cancelled_is_interrupted_and_never_read) {
  const testing::TempFolder folder;
  FileTable files;
  const auto id = files.open(folder.file("data", 20'000), operating_system(),
                             direct_file_maker({.direct = false}));
  ASSERT_TRUE(id.has_value());
  const testing::Room room(room_for_extent(20'000));
  testing::Collector dropped;
  testing::Collector kept;
  RequestQueue queue(8192);  // three pieces per request
  const auto push = [&](std::uint64_t tag, CompletionSink& sink) {
    queue.push({.extent = {*id, 0, 20'000}, .room = room.bytes(), .tag = tag, .sink = &sink},
               files[*id]);
  };
  using Ended = std::vector<std::pair<std::uint64_t, std::optional<ErrorKind>>>;
  Ended ended;
  const auto finish = [&](const Piece& piece) {
    for (const Request& request : queue.finish(piece, {.got = piece.length})) {
      std::optional<ErrorKind> error;
      if (request.error) error = request.error->kind;
      ended.emplace_back(request.asked.tag, error);
      queue.delivered(request.asked.sink);
    }
  };
  push(1, dropped);
  push(2, kept);
  push(3, dropped);
  const auto begun = queue.try_take();
  ASSERT_TRUE(begun.has_value());
  queue.drop(dropped);
  std::uint64_t read = 0;
  while (const auto piece = queue.try_take()) {
    read += piece->length;
    finish(*piece);
  }
  EXPECT_EQ(read, 20'000u) << "all of the other sink's, and nothing else";
  EXPECT_FALSE(queue.idle()) << "of the first a piece is under way";
  finish(*begun);
  EXPECT_EQ(ended, (Ended{{3, ErrorKind::interrupted}, {2, {}}, {1, ErrorKind::interrupted}}));
  EXPECT_TRUE(queue.idle());
}

}  // namespace
}  // namespace sluice::io
