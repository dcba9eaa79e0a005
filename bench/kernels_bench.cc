// Speed of the kernels at the shapes of Kimi K3, on one thread, with weights that no cache holds.
//
//   bench_kernels --benchmark_filter=Matmul --benchmark_repetitions=5
//                 --benchmark_report_aggregates_only=true
//
// prints the best of five as `best` (of the counters: of the times it is the worst).
// Rates are per second of CPU time, so that other work on the machine disturbs them less. GB/s are
// of packed bytes (codes and scales, or state read and written); `of_read` is their share of what a
// loop that only reads the same memory gets right before.
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/kernels_bench.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace sluice::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Reads all bytes, in the widest loads that there are, and makes a number of them.
std::uint64_t read_all(const std::uint8_t* data, std::size_t bytes) {
  const hn::ScalableTag<std::uint64_t> words;
  const std::size_t lanes = hn::Lanes(words);
  const auto* from = reinterpret_cast<const std::uint64_t*>(data);
  auto a = hn::Zero(words);
  auto b = a;
  auto c = a;
  auto d = a;
  for (std::size_t i = 0; i + 4 * lanes <= bytes / 8; i += 4 * lanes) {
    a = hn::Xor(a, hn::Load(words, from + i));
    b = hn::Xor(b, hn::Load(words, from + i + lanes));
    c = hn::Xor(c, hn::Load(words, from + i + 2 * lanes));
    d = hn::Xor(d, hn::Load(words, from + i + 3 * lanes));
  }
  return hn::GetLane(hn::Xor(hn::Xor(a, b), hn::Xor(c, d)));
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace sluice::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/ops.h"

namespace sluice::bench {
namespace {

HWY_EXPORT(read_all);

using kernels::Rows;
using kernels::WeightFormat;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// More than the largest cache, in huge pages. The bytes are ordinary numbers in every format: bf16
/// and float32 of about 1e-2, any E2M1 code, scales of about 2^-67.
std::span<std::byte> memory() {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  static const std::span<std::byte> kMemory = [] {
    void* mapping =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
      std::fputs("bench_kernels: no 1 GiB of memory\n", stderr);
      std::exit(1);
    }
    madvise(mapping, kBytes, MADV_HUGEPAGE);
    auto* words = static_cast<std::uint32_t*>(mapping);
    for (std::size_t i = 0; i < kBytes / 4; ++i) {
      const auto random = static_cast<std::uint32_t>(i) * 2654435761u;
      words[i] = (random & 0x0F0F0F0Fu) | 0x30303030u;
    }
    return std::span(static_cast<std::byte*>(mapping), kBytes);
  }();
  return kMemory;
}

/// GB/s of a loop that only reads; the best of three.
double read_speed() {
  const std::span<std::byte> all = memory();
  double best = 0.0;
  for (int i = 0; i < 3; ++i) {
    const double start = cpu_seconds();
    benchmark::DoNotOptimize(HWY_DYNAMIC_DISPATCH(read_all)(
        reinterpret_cast<const std::uint8_t*>(all.data()), all.size()));
    best = std::max(best, static_cast<double>(all.size()) / (cpu_seconds() - start) / 1e9);
  }
  return best;
}

/// A stretch of memory() for each call, each as far away from its last use as can be.
class Cursor {
 public:
  std::byte* next(std::size_t bytes) {
    if (at_ + bytes > memory().size()) at_ = 0;
    std::byte* here = memory().data() + at_;
    at_ += bytes;
    return here;
  }

 private:
  std::size_t at_ = 0;
};

/// Floats on a cache line, about 0.5.
class Floats {
 public:
  explicit Floats(std::size_t n)
      : data_(static_cast<float*>(std::aligned_alloc(64, (n * 4 + 63) / 64 * 64))) {
    for (std::size_t i = 0; i < n; ++i)
      data_.get()[i] = 0.25f + 0.001f * static_cast<float>(i % 511);
  }
  operator float*() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> data_;
};

/// Counts CPU time from here to report().
class Meter {
 public:
  void report(benchmark::State& state, double bytes, double operations) const {
    const double seconds = (cpu_seconds() - start_) / static_cast<double>(state.iterations());
    if (bytes > 0) {
      state.counters["GB/s"] = bytes / seconds / 1e9;
      state.counters["of_read"] = bytes / seconds / 1e9 / read_speed_;
    }
    if (operations > 0) state.counters["GFLOP/s"] = operations / seconds / 1e9;
  }

 private:
  double read_speed_ = read_speed();
  double start_ = cpu_seconds();
};

void ReadLoop(benchmark::State& state) {
  const Meter meter;
  for (auto _ : state) {
    benchmark::DoNotOptimize(HWY_DYNAMIC_DISPATCH(read_all)(
        reinterpret_cast<const std::uint8_t*>(memory().data()), memory().size()));
  }
  meter.report(state, static_cast<double>(memory().size()), 0);
}

double best(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

BENCHMARK(ReadLoop)->ComputeStatistics("best", best)->Unit(benchmark::kMillisecond);

/// Arguments: rows, columns, positions.
void Matmul(benchmark::State& state, WeightFormat format) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  const auto columns = static_cast<std::size_t>(state.range(1));
  const auto positions = static_cast<std::size_t>(state.range(2));
  const Floats x(columns * positions);
  const Floats prepared(kernels::prepared_floats(columns, positions));
  const Floats y(rows * positions);
  kernels::prepare(format, x, columns, columns, positions, prepared);
  const std::size_t bytes = rows * kernels::bytes_per_row(format, columns);
  const std::size_t groups = rows * columns / 32;
  const std::size_t scale_bytes = format == WeightFormat::mxfp4     ? groups
                                  : format == WeightFormat::int4    ? 2 * groups
                                  : format == WeightFormat::f8_e4m3 ? groups / 8  // about
                                                                    : 0;
  Cursor cursor;
  const Meter meter;
  for (auto _ : state) {
    const std::byte* data = cursor.next(bytes + scale_bytes);
    kernels::matmul(Rows{format, data, data + bytes, rows, columns}, prepared, positions, y, rows);
    benchmark::ClobberMemory();
  }
  meter.report(state, static_cast<double>(bytes + scale_bytes),
               2.0 * static_cast<double>(rows * columns * positions));
}
void positions_of(benchmark::internal::Benchmark* b, std::int64_t rows, std::int64_t columns) {
  for (const std::int64_t positions : {1, 2, 3, 4, 8, 16, 64}) {
    b->Args({rows, columns, positions});
  }
  b->ComputeStatistics("best", best)->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(Matmul, mxfp4, WeightFormat::mxfp4)->Apply([](benchmark::internal::Benchmark* b) {
  positions_of(b, 3072, 3584);
});
BENCHMARK_CAPTURE(Matmul, bf16, WeightFormat::bf16)->Apply([](benchmark::internal::Benchmark* b) {
  positions_of(b, 12288, 7168);
});

BENCHMARK_CAPTURE(Matmul, f8_e4m3, WeightFormat::f8_e4m3)
    ->Apply([](benchmark::internal::Benchmark* b) { positions_of(b, 2048, 7168); });
BENCHMARK_CAPTURE(Matmul, int4, WeightFormat::int4)->Apply([](benchmark::internal::Benchmark* b) {
  positions_of(b, 2048, 7168);
});

void Prepare(benchmark::State& state, WeightFormat format) {
  const auto columns = static_cast<std::size_t>(state.range(0));
  const Floats x(columns);
  const Floats prepared(kernels::prepared_floats(columns, 1));
  for (auto _ : state) {
    kernels::prepare(format, x, columns, columns, 1, prepared);
    benchmark::ClobberMemory();
  }
}
BENCHMARK_CAPTURE(Prepare, mxfp4, WeightFormat::mxfp4)->Arg(3584);
BENCHMARK_CAPTURE(Prepare, bf16, WeightFormat::bf16)->Arg(7168);

/// The key projections of MLA's heads, transposed: 128 x 512 each.
void AddTransposed(benchmark::State& state) {
  const Floats a(128);
  const Floats y(512);
  const std::size_t bytes = 128 * 512 * 2;
  Cursor cursor;
  const Meter meter;
  for (auto _ : state) {
    const std::byte* data = cursor.next(bytes);
    kernels::add_transposed(Rows{WeightFormat::bf16, data, nullptr, 128, 512}, a, y);
    benchmark::ClobberMemory();
  }
  meter.report(state, static_cast<double>(bytes), 2.0 * 128 * 512);
}
BENCHMARK(AddTransposed)->ComputeStatistics("best", best);

/// One position of all 69 layers x 96 heads: 434 MB of state, read and written.
void KdaStep(benchmark::State& state) {
  constexpr std::size_t kDim = 128;
  constexpr std::size_t kHeads = 96 * 69;
  const Floats x(kDim);
  const Floats decay(kDim);
  const Floats scratch(kDim);
  const Floats out(kDim);
  float* states = reinterpret_cast<float*>(memory().data());
  const Meter meter;
  for (auto _ : state) {
    for (std::size_t head = 0; head < kHeads; ++head) {
      kernels::kda_step(states + head * kDim * kDim, x, x, x, decay, 0.5f, kDim, scratch, out);
    }
  }
  meter.report(state, 2.0 * kHeads * kDim * kDim * 4, 7.0 * kHeads * kDim * kDim);
}
BENCHMARK(KdaStep)->ComputeStatistics("best", best)->Unit(benchmark::kMillisecond);

/// Argument: positions in the cache. One layer, all 96 heads, as the model calls it.
void LatentAttention(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const Floats queries(96 * 576);
  const Floats cache(count * 576);
  const Floats scores(96 * count);
  const Floats out(96 * 512);
  const Meter meter;
  for (auto _ : state) {
    kernels::latent_attention_heads(queries, 96, cache, count, 576, 512, 0.07f, scores, out);
    benchmark::ClobberMemory();
  }
  meter.report(state, 0, 2.0 * 96 * static_cast<double>(count) * (576 + 512));
}
BENCHMARK(LatentAttention)
    ->Arg(64)
    ->Arg(1024)
    ->Arg(8192)
    ->ComputeStatistics("best", best)
    ->Unit(benchmark::kMicrosecond);

/// The small ones, at K3's sizes; Time per call is what counts.
void Small(benchmark::State& state, void (*run)(float* a, float* b, float* c)) {
  const Floats a(8 * 12288);
  const Floats b(8 * 12288);
  const Floats c(8 * 12288);
  for (auto _ : state) {
    run(a, b, c);
    benchmark::ClobberMemory();
  }
}
BENCHMARK_CAPTURE(Small, rms_norm_7168,
                  [](float* a, float* b, float* c) { kernels::rms_norm(a, b, 7168, 1e-5f, c); });
BENCHMARK_CAPTURE(Small, situ_glu_3072, [](float* a, float* b, float* c) {
  kernels::glu(kernels::Glu{kernels::Glu::Kind::situ, 4.0f, 25.0f}, a, b, 3072, c);
});
BENCHMARK_CAPTURE(Small, short_convolution_12288, [](float* a, float* b, float* c) {
  kernels::short_convolution(a, b, 12288, 4, c, c + 12288);
});
BENCHMARK_CAPTURE(Small, kda_decay_128, [](float* a, float*, float* c) {
  kernels::kda_decay(a, 128, 0.5f, true, -5.0f, c);
});
BENCHMARK_CAPTURE(Small, attention_residual_9x7168, [](float* a, float* b, float* c) {
  const float* sources[9];
  for (std::size_t i = 0; i < 9; ++i) sources[i] = a + i * 7168;
  kernels::attention_residual(sources, b, 7168, 1e-5f, c);
});
BENCHMARK_CAPTURE(Small, route_896, [](float* a, float* b, float* c) {
  std::int32_t ids[16];
  float weights[16];
  std::copy_n(c, 896, a);
  kernels::route(kernels::Router{896, 16}, a, b, ids, weights);
});
BENCHMARK_CAPTURE(Small, argmax_98304, [](float* a, float*, float*) {
  benchmark::DoNotOptimize(kernels::argmax(a, 98304));
});

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  std::printf("kernels run on %s\n", std::string(sluice::kernels::simd_target()).c_str());
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}

#endif  // HWY_ONCE
