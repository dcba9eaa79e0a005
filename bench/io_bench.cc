// How fast a reader brings in random extents of one file: GB/s and CPU time, for each setting.
//
//   bench_io FILE [--mode pread,uring] [--extent 17547264] [--piece 4M] [--threads 8] [--depth 16]
//   ...
//
// Lists are separated by commas; all combinations are measured in turn, `--rounds` times. The file
// is best read once before (with direct I/O), since the speed of many virtual disks depends on what
// was read lately. fio beside it, same shape:
//   fio --name=x --filename=FILE --rw=randread --bs=4M --direct=1 --ioengine=io_uring --iodepth=16
//       --runtime=3 --time_based --readonly

#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
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

struct Figures {
  double gigabytes_per_s = 0;
  double cpu_ms_per_gigabyte = 0;
};

Result<Figures> measure(const std::string& path, const Setting& setting, double run_s) {
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
  const double gigabytes = 1e-9 * static_cast<double>(reader->statistics().drives[0].bytes);
  return Figures{.gigabytes_per_s = gigabytes / wall, .cpu_ms_per_gigabyte = 1e3 * cpu / gigabytes};
}

/// The lists of the command line, and all their combinations.
struct Lists {
  std::vector<std::string> modes{"pread", "uring"};
  std::vector<std::string> extents{"17547264"};
  std::vector<std::string> pieces{"4M"};
  std::vector<int> threads{8};
  std::vector<int> depths{16};
  std::vector<std::uint64_t> in_flight{16};

  Result<std::vector<Setting>> settings() const {
    std::vector<Setting> all;
    for (const auto& mode_text : modes) {
      SLUICE_ASSIGN(const IoMode mode, parse_io_mode(mode_text));
      const bool ring = mode == IoMode::uring || mode == IoMode::automatic;
      for (const auto& extent_text : extents) {
        SLUICE_ASSIGN(const std::uint64_t extent, parse_size(extent_text));
        for (const auto& piece_text : pieces) {
          SLUICE_ASSIGN(const std::uint64_t piece, parse_size(piece_text));
          for (const int width : ring ? depths : threads) {
            for (const std::uint64_t flights : in_flight) {
              Setting setting{.mode = mode, .extent = extent, .in_flight = flights, .options = {}};
              setting.options.piece_bytes = piece;
              (ring ? setting.options.queue_depth : setting.options.threads) = width;
              all.push_back(setting);
            }
          }
        }
      }
    }
    return all;
  }
};

Status run(const std::string& path, const Lists& lists, int rounds, double run_s) {
  SLUICE_ASSIGN(const std::vector<Setting> settings, lists.settings());
  std::vector<std::vector<Figures>> figures(settings.size());
  // Round by round, so that a drive whose speed drifts does not favour one setting.
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < settings.size(); ++i) {
      SLUICE_ASSIGN(const Figures measured, measure(path, settings[i], run_s));
      figures[i].push_back(measured);
    }
  }
  fmt::print("mode   extent    piece     width flights  GB/s: lowest median highest  CPU ms/GB\n");
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const auto by_speed = [](const Figures& a, const Figures& b) {
      return a.gigabytes_per_s < b.gigabytes_per_s;
    };
    std::sort(figures[i].begin(), figures[i].end(), by_speed);
    const Setting& setting = settings[i];
    const bool ring = setting.mode == IoMode::uring || setting.mode == IoMode::automatic;
    const Figures& median = figures[i][figures[i].size() / 2];
    fmt::print("{:<6} {:>9} {:>9} {:>4} {:>6} {:>13.2f} {:>6.2f} {:>7.2f} {:>10.1f}\n",
               name_of(setting.mode), format_size(setting.extent),
               format_size(setting.options.piece_bytes),
               ring ? setting.options.queue_depth : setting.options.threads, setting.in_flight,
               figures[i].front().gigabytes_per_s, median.gigabytes_per_s,
               figures[i].back().gigabytes_per_s, median.cpu_ms_per_gigabyte);
  }
  return {};
}

}  // namespace
}  // namespace sluice::io

int main(int argc, char** argv) {
  std::string path;
  sluice::io::Lists lists;
  int rounds = 3;
  double seconds = 1.5;
  CLI::App app("Measures how fast a reader brings in random extents of a file.");
  app.add_option("file", path)->required();
  app.add_option("--mode", lists.modes)->delimiter(',');
  app.add_option("--extent", lists.extents)->delimiter(',');
  app.add_option("--piece", lists.pieces)->delimiter(',');
  app.add_option("--threads", lists.threads, "of a pool")->delimiter(',');
  app.add_option("--depth", lists.depths, "of a ring")->delimiter(',');
  app.add_option("--in-flight", lists.in_flight, "extents asked for at once")->delimiter(',');
  app.add_option("--rounds", rounds)->check(CLI::PositiveNumber);
  app.add_option("--seconds", seconds, "of each measurement");
  CLI11_PARSE(app, argc, argv);
  const sluice::Status status = sluice::io::run(path, lists, rounds, seconds);
  if (status) return 0;
  fmt::print(stderr, "{}\n", status.error().message);
  return sluice::exit_code(status.error().kind);
}
