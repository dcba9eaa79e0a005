// Our own count of a model's bytes against the kernel's, from the first of them on.
#include "base/buffer.h"
#include "base/process_io.h"
#include "engine/golden.h"
#include "io/make_reader.h"

namespace sluice::engine {
namespace {

// The ends of files are read through the page cache, which may have them.
constexpr std::uint64_t kEnds = 64 << 10;

/// Whether the kernel counts what is read directly from this file.
bool are_counted(const std::filesystem::path& path) {
  MemoryLedger ledger(std::uint64_t{1} << 30);
  const auto reader = io::make_reader(io::IoMode::automatic).value();
  const io::FileId file = reader->open(path).value();
  const auto room = Buffer::allocate(reader->room_for(kEnds), Tenant::program, ledger).value();
  const auto before = storage_bytes_read();
  EXPECT_TRUE(io::read_now(*reader, {file, 0, kEnds}, room.bytes(), io::Purpose::other));
  return before && *storage_bytes_read() - *before >= kEnds &&
         reader->statistics().drives.at(0).direct;
}

TEST(Storage, WhatIsReadBeforeTheFirstPassIsInBothCounts) {
  if (!are_counted(checkpoint_folder("k3-nano") / "model-00001-of-000003.safetensors")) {
    GTEST_SKIP() << "no direct I/O that the kernel counts here";
  }
  EngineOptions options;
  options.identify = true;  // reads samples of the weights
  const auto engine = open_engine("k3-nano", options);
  ASSERT_TRUE(engine) << engine.error().message;
  const Statistics now = (*engine)->statistics({});
  std::uint64_t read = 0;
  for (const io::DriveStatistics& drive : now.reads.drives) read += drive.bytes;
  ASSERT_GT(read, 2 * kEnds);
  EXPECT_GE(now.storage_bytes.value() + kEnds, read);
}

}  // namespace
}  // namespace sluice::engine
