// Our own count of bytes against the kernel's.
#include "base/process_io.h"

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
  const std::uint64_t before = storage_bytes_read().value();
  testing::Collector sink;
  testing::Batch batch(*reader, sink);
  for (std::uint64_t tag = 0; tag < 8; ++tag) {
    batch.add({*file, tag * 1'000'003, 10'000'001}, tag, static_cast<Priority>(tag % kPriorities));
  }
  reader->submit(batch.requests());
  sink.wait_for(8);
  const std::uint64_t kernel = storage_bytes_read().value() - before;
  const DriveStatistics drive = reader->statistics().drives.at(0);
  if (!drive.direct || kernel == 0) GTEST_SKIP() << "no direct I/O on a block device here";
  EXPECT_GE(drive.bytes, 8 * 10'000'001u);
  EXPECT_GE(kernel, drive.bytes);
  // The program's own pages may be fetched meanwhile.
  EXPECT_LE(kernel, drive.bytes + (8 << 20));
}

INSTANTIATE_TEST_SUITE_P(Ways, ProcessIo, ::testing::ValuesIn(testing::direct_ways()),
                         testing::way_name);

}  // namespace
}  // namespace sluice::io
