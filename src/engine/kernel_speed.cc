#include "engine/kernel_speed.h"

#include <algorithm>
#include <array>
#include <memory>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/ledger.h"
#include "base/thread_pool.h"
#include "kernels/matmul.h"
#include "kernels/read_loop.h"

namespace sluice::engine {
namespace {

using kernels::WeightFormat;

constexpr std::size_t kBytes = std::size_t{128} << 20;  // of weights
constexpr std::size_t kColumns = 7168;                  // K3's hidden size
constexpr std::size_t kManyPositions = 32;
constexpr std::size_t kRowsPerItem = 16;
constexpr int kRounds = 5;  // the best counts, in turn: other work disturbs some of them

struct Trial {
  const char* name;
  WeightFormat format;
  std::size_t positions;
};
constexpr std::array<Trial, 4> kTrials = {{{"bf16", WeightFormat::bf16, 1},
                                           {"MXFP4", WeightFormat::mxfp4, 1},
                                           {"bf16", WeightFormat::bf16, kManyPositions},
                                           {"MXFP4", WeightFormat::mxfp4, kManyPositions}}};

/// Memory full of ordinary numbers in every format, and what is multiplied with it.
class Bench {
 public:
  static Result<Bench> create(int threads) {
    Bench bench;
    bench.ledger_ = std::make_unique<MemoryLedger>(std::uint64_t{1} << 40);
    SLUICE_ASSIGN(bench.weights_, Buffer::allocate(kBytes, Tenant::resident, *bench.ledger_));
    const std::uint64_t floats = kernels::prepared_floats(kColumns, kManyPositions);
    SLUICE_ASSIGN(bench.prepared_,
                  Buffer::allocate(floats * sizeof(float), Tenant::activations, *bench.ledger_));
    const std::size_t outputs = static_cast<std::size_t>(threads) * kRowsPerItem * kManyPositions;
    SLUICE_ASSIGN(bench.out_,
                  Buffer::allocate(outputs * sizeof(float), Tenant::activations, *bench.ledger_));
    // 0x3C as a bf16 is about 1e-2, as a scale 2^-67, as codes 6 and 1: nothing overflows.
    std::fill_n(bench.weights_.data(), kBytes, std::byte{0x3C});
    std::fill_n(bench.prepared_.floats().data(), floats, 0.01f);
    return bench;
  }

  /// One pass over the weights on all threads of the pool; returns the bytes.
  std::size_t multiply(const Trial& trial, ThreadPool& threads) {
    const bool packed = trial.format == WeightFormat::mxfp4;
    const std::size_t row = kernels::bytes_per_row(trial.format, kColumns);
    const std::size_t scales = packed ? kColumns / 32 : 0;
    const std::size_t item = kRowsPerItem * (row + scales);
    const std::size_t items = kBytes / item;
    threads.run(items, [&](std::size_t index, int worker) {
      const std::byte* at = weights_.data() + index * item;
      const kernels::Rows rows = {trial.format, at, packed ? at + kRowsPerItem * row : nullptr,
                                  kRowsPerItem, kColumns};
      float* const out =
          out_.floats().data() + static_cast<std::size_t>(worker) * kRowsPerItem * kManyPositions;
      kernels::matmul(rows, prepared_.floats().data(), trial.positions, out, kRowsPerItem);
    });
    return items * item;
  }

  std::size_t read(ThreadPool& threads) {
    constexpr std::size_t kItem = std::size_t{1} << 20;
    threads.run(kBytes / kItem, [&](std::size_t index, int worker) {
      const std::uint64_t sum = kernels::read_all(weights_.data() + index * kItem, kItem);
      out_.floats()[static_cast<std::size_t>(worker)] = static_cast<float>(sum);
    });
    return kBytes;
  }

 private:
  Bench() = default;
  std::unique_ptr<MemoryLedger> ledger_;  // outlives the buffers
  Buffer weights_;
  Buffer prepared_;
  Buffer out_;
};

/// Bytes per second of `work`, called until `seconds` are over.
template <class Work>
double rate(double seconds, Work work) {
  const auto start = Clock::now();
  double bytes = 0;
  do {
    bytes += static_cast<double>(work());
  } while (seconds_since(start) < seconds);
  return bytes / seconds_since(start);
}

/// Adds the trials on `threads` threads to the report, and returns the read loop's speed.
double measure_on(int count, double seconds, Bench& bench, std::vector<KernelSpeed>& kernels) {
  ThreadPool threads(count);
  double read = 0;
  const std::size_t first = kernels.size();
  for (const Trial& trial : kTrials) {
    kernels.push_back({trial.name, trial.positions, count, 0, 0, 0});
  }
  for (int round = 0; round < kRounds; ++round) {
    read = std::max(read, rate(seconds / kRounds, [&] { return bench.read(threads); }));
    for (std::size_t i = 0; i < kTrials.size(); ++i) {
      double& best = kernels[first + i].bytes_per_s;
      best = std::max(best,
                      rate(seconds / kRounds, [&] { return bench.multiply(kTrials[i], threads); }));
    }
  }
  for (std::size_t i = 0; i < kTrials.size(); ++i) {
    KernelSpeed& speed = kernels[first + i];
    const bool packed = kTrials[i].format == WeightFormat::mxfp4;
    speed.of_read = speed.bytes_per_s / read;
    speed.multiplies_per_s =
        speed.bytes_per_s * (packed ? 32.0 / 17 : 0.5) * static_cast<double>(speed.positions);
  }
  return read;
}

}  // namespace

Result<KernelReport> measure_kernels(int threads, double seconds) {
  SLUICE_ASSIGN(Bench bench, Bench::create(threads));
  KernelReport report;
  report.threads = threads;
  const double each = seconds / static_cast<double>(kTrials.size() + 1) / (threads > 1 ? 2 : 1);
  report.read_one = measure_on(1, each, bench, report.kernels);
  report.read_all =
      threads > 1 ? measure_on(threads, each, bench, report.kernels) : report.read_one;
  return report;
}

MachineSpeeds speeds_of(const KernelReport& report) {
  MachineSpeeds speeds;
  speeds.memory = report.read_all;
  for (const KernelSpeed& kernel : report.kernels) {
    if (kernel.threads != report.threads) continue;
    // On a busy machine a kernel may get more than the loop did.
    if (kernel.positions == 1) speeds.memory = std::max(speeds.memory, kernel.bytes_per_s);
    const bool packed = kernel.name == "MXFP4";
    if (kernel.positions == 1) (packed ? speeds.packed : speeds.plain) = kernel.bytes_per_s;
    if (kernel.positions > 1 && !packed) speeds.operations = kernel.multiplies_per_s;
  }
  return speeds;
}

}  // namespace sluice::engine
