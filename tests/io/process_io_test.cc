// Our own count of bytes against the kernel's.
#include "base/process_io.h"

#include <algorithm>

#include "io/make_reader.h"
#include "io_testing.h"
#include "reader_ways.h"

namespace sluice::io {
namespace {

using testing::Way;

class ProcessIo : public ::testing::TestWithParam<Way> {};

TEST_P(ProcessIo, direct_reads_are_what_the_kernel_counts) {
  if (!storage_bytes_read()) GTEST_SKIP() << "the kernel does not count";
  constexpr std::uint64_t size = 24 << 20;
  const testing::TempFolder folder;
  ReaderOptions options;
  options.direct = true;
  const auto reader = *make_reader(GetParam().mode, options);
  const auto file = reader->open(folder.file("data", size));
  testing::Collector sink;
  testing::Batch batch(*reader, sink);
  for (std::uint64_t tag = 0; tag < 8; ++tag) {
    batch.add({*file, tag * 1'000'003, 10'000'001}, tag, static_cast<Priority>(tag % kPriorities));
  }
  // The program's own pages may be fetched meanwhile, any number of them where memory is short.
  // They only add to what the kernel counts, so one undisturbed time out of several is enough.
  constexpr std::uint64_t kOwnPages = 8 << 20;
  std::uint64_t least = ~std::uint64_t{0};
  for (std::size_t time = 1; time <= 5 && least > kOwnPages; ++time) {
    const std::uint64_t before = storage_bytes_read().value();
    const std::uint64_t before_by_us = reader->statistics().drives.at(0).bytes;
    reader->submit(batch.requests());
    sink.wait_for(8 * time);
    const std::uint64_t kernel = storage_bytes_read().value() - before;
    const DriveStatistics drive = reader->statistics().drives.at(0);
    const std::uint64_t bytes = drive.bytes - before_by_us;
    EXPECT_GE(bytes, 8 * 10'000'001u);
    if (!drive.direct || kernel < kOwnPages) {
      GTEST_SKIP() << "no direct I/O on a block device here";
    }
    ASSERT_GE(kernel, bytes);
    least = std::min(least, kernel - bytes);
  }
  EXPECT_LE(least, kOwnPages);
}

INSTANTIATE_TEST_SUITE_P(Ways, ProcessIo, ::testing::ValuesIn(testing::direct_ways()),
                         testing::way_name);

}  // namespace
}  // namespace sluice::io
