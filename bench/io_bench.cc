// How fast a reader brings in random extents of one file: GB/s and CPU time, for each setting.
//
//   bench_io FILE [--mode pread,mmap] [--extent 17547264] [--piece 4M] [--threads 8] ...
//
// Lists are separated by commas; all combinations are measured, in turn, `--rounds` times, since
// the speed of a drive drifts. Read the file once before (with direct I/O) to warm up what lies
// behind a virtual disk. fio beside it, same shape:
//   fio --name=x --filename=FILE --rw=randread --bs=4M --direct=1 --ioengine=libaio --iodepth=16
//       --runtime=3 --time_based

#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <condition_variable>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/ledger.h"
#include "base/size.h"
#include "io/make_reader.h"

namespace sluice::io {
namespace {

struct Setting {
  IoMode mode;
  std::uint64_t extent;
  std::uint64_t in_flight;
  ReaderOptions options;
};

/// Room for several extents, and which of them are free.
class Rooms final : public CompletionSink {
 public:
  Rooms(std::span<std::byte> memory, std::size_t room_bytes) : memory_(memory), room_(room_bytes) {
    for (std::size_t i = 0; i < memory.size() / room_bytes; ++i) free_.push_back(i);
    count_ = free_.size();
  }

  std::uint64_t take() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return !free_.empty(); });
    const std::uint64_t room = free_.back();
    free_.pop_back();
    return room;
  }
  std::span<std::byte> bytes(std::uint64_t room) const {
    return memory_.subspan(room * room_, room_);
  }
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return free_.size() == count_; });
  }

  void complete(Completion completion) noexcept override {
    const std::scoped_lock lock(mutex_);
    if (!completion.bytes) fmt::print(stderr, "{}\n", completion.bytes.error().message);
    free_.push_back(completion.tag);
    arrived_.notify_one();
  }

 private:
  std::span<std::byte> memory_;
  std::size_t room_;
  std::size_t count_ = 0;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::uint64_t> free_;
};

double cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Status measure(const std::string& path, const Setting& setting, double run_s) {
  SLUICE_ASSIGN(std::unique_ptr<Reader> reader, make_reader(setting.mode, setting.options));
  SLUICE_ASSIGN(const FileId file, reader->open(path));
  if (reader->size(file) < setting.extent) return fail(ErrorKind::usage, "the file is too small");
  MemoryLedger ledger(std::uint64_t{1} << 40);
  const std::size_t room = round_up(reader->room_for(setting.extent), std::uint64_t{2} << 20);
  SLUICE_ASSIGN(Buffer memory, Buffer::allocate(room * setting.in_flight, Tenant::experts, ledger));
  memory.touch();
  Rooms rooms(memory.bytes(), room);
  std::mt19937_64 random(std::random_device{}());

  const Clock::time_point start = Clock::now();
  const double cpu_start = cpu_seconds();
  while (seconds_since(start) < run_s) {
    const std::uint64_t tag = rooms.take();
    const std::uint64_t offset = random() % (reader->size(file) - setting.extent + 1);
    const ReadRequest request{.extent = {file, offset, setting.extent},
                              .room = rooms.bytes(tag),
                              .purpose = Purpose::expert,
                              .tag = tag,
                              .sink = &rooms};
    reader->submit({&request, 1});
  }
  rooms.wait_for_all();
  const double wall = seconds_since(start);
  const double cpu = cpu_seconds() - cpu_start;
  const ReaderStatistics statistics = reader->statistics();
  const double gigabytes = 1e-9 * static_cast<double>(statistics.drives[0].bytes);
  fmt::print(
      "{:<10} extent {:>9} piece {:>9} threads {:>2} in flight {:>2}  {:6.2f} GB/s  "
      "{:5.1f} ms CPU/GB{}\n",
      name_of(setting.mode), format_size(setting.extent), format_size(setting.options.piece_bytes),
      setting.options.threads, setting.in_flight, gigabytes / wall, 1e3 * cpu / gigabytes,
      statistics.drives[0].direct ? "" : "  (not direct)");
  std::fflush(stdout);
  return {};
}

}  // namespace
}  // namespace sluice::io

int main(int argc, char** argv) {
  using namespace sluice;  // NOLINT(google-build-using-namespace): one program, one function
  std::string path;
  std::vector<std::string> modes{"pread"};
  std::vector<std::string> extents{"17547264"};
  std::vector<std::string> pieces{"4M"};
  std::vector<int> threads{8};
  std::vector<std::uint64_t> in_flight{16};
  int rounds = 1;
  double seconds = 2;
  CLI::App app("Measures how fast a reader brings in random extents of a file.");
  app.add_option("file", path)->required();
  app.add_option("--mode", modes)->delimiter(',');
  app.add_option("--extent", extents)->delimiter(',');
  app.add_option("--piece", pieces)->delimiter(',');
  app.add_option("--threads", threads)->delimiter(',');
  app.add_option("--in-flight", in_flight)->delimiter(',');
  app.add_option("--rounds", rounds);
  app.add_option("--seconds", seconds);
  CLI11_PARSE(app, argc, argv);
  for (int round = 0; round < rounds; ++round) {
    for (const auto& mode : modes) {
      for (const auto& extent : extents) {
        for (const auto& piece : pieces) {
          for (const int count : threads) {
            for (const std::uint64_t flights : in_flight) {
              const auto run = [&]() -> Status {
                io::Setting setting{.mode = io::IoMode::pread,
                                    .extent = 0,
                                    .in_flight = flights,
                                    .options = {.threads = count}};
                SLUICE_ASSIGN(setting.mode, io::parse_io_mode(mode));
                SLUICE_ASSIGN(setting.extent, parse_size(extent));
                SLUICE_ASSIGN(setting.options.piece_bytes, parse_size(piece));
                return io::measure(path, setting, seconds);
              };
              const Status status = run();
              if (!status) {
                fmt::print(stderr, "{}\n", status.error().message);
                return exit_code(status.error().kind);
              }
            }
          }
        }
      }
    }
  }
  return 0;
}
