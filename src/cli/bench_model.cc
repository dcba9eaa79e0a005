#include "cli/bench_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/size.h"
#include "cli/interrupts.h"
#include "cli/model_facts.h"
#include "cli/words.h"
#include "engine/drive_speed.h"
#include "engine/engine.h"
#include "engine/fit.h"
#include "engine/kernel_speed.h"
#include "engine/machine.h"

namespace sluice::cli {
namespace {

using Json = nlohmann::ordered_json;

namespace fs = std::filesystem;

constexpr double kDriveSeconds = 0.5;
constexpr double kKernelSeconds = 1;

/// Ids without a meaning, all over the vocabulary.
std::vector<std::int32_t> some_ids(std::size_t count, std::size_t vocabulary) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>((i * 7919 + 11) % vocabulary));
  }
  return ids;
}

Result<std::optional<double>> drive_speed(const engine::TrialFiles& files, io::IoMode mode) {
  if (files.paths().empty()) return std::optional<double>();
  SLUICE_ASSIGN(const engine::DriveSpeed speed,
                engine::measure_drive(files, {.mode = mode, .seconds = kDriveSeconds}));
  return std::optional(speed.bytes_per_s);
}

/// What is counted between two moments.
struct Span {
  engine::Statistics before;
  engine::Statistics after;

  void fill_in(ModelBench& bench) const {
    bench.io_wait_s = after.io_wait_s - before.io_wait_s;
    bench.bytes_read = after.bytes_read() - before.bytes_read();
    for (std::size_t i = 0; i < after.reads.drives.size(); ++i) {
      const double earlier = i < before.reads.drives.size() ? before.reads.drives[i].busy_s : 0;
      bench.drive_busy_s = std::max(bench.drive_busy_s, after.reads.drives[i].busy_s - earlier);
    }
    const std::uint64_t hits = after.expert_hits - before.expert_hits;
    const std::uint64_t picks = hits + after.expert_misses - before.expert_misses;
    bench.hit_rate = picks > 0 ? static_cast<double>(hits) / static_cast<double>(picks) : 0;
  }
};

/// What is measured, without what came before.
engine::TokenCounts counts_of(const ModelBench& bench) {
  engine::TokenCounts counts;
  if (bench.kind == BenchKind::decode) {
    counts.generated_tokens = counts.decoded_tokens = bench.tokens;
    counts.decode_s = bench.seconds;
  } else {
    counts.prompt_tokens = counts.last_prompt_tokens = bench.tokens;
    counts.prefill_s = bench.seconds;
  }
  return counts;
}

Status run(engine::Engine& engine, std::size_t warm, ModelBench& bench) {
  engine::FeedOptions feed;
  feed.cancellation = &Interrupts::cancellation();
  SLUICE_ASSIGN(const auto sequence, engine.new_sequence());
  const auto ids = some_ids(warm + bench.tokens, engine.shape().vocabulary);
  const std::span<const std::int32_t> all(ids);
  for (std::size_t i = 0; i < warm; ++i) {
    SLUICE_TRY(engine.feed(*sequence, all.subspan(i, 1), feed));
  }
  const engine::Statistics before = engine.statistics();
  const auto start = Clock::now();
  if (bench.kind == BenchKind::prefill) {
    SLUICE_TRY(engine.feed(*sequence, all, feed));
  }
  for (std::size_t i = 0; bench.kind == BenchKind::decode && i < bench.tokens; ++i) {
    const auto token = Clock::now();
    SLUICE_TRY(engine.feed(*sequence, all.subspan(warm + i, 1), feed));
    bench.token_s.push_back(seconds_since(token));
  }
  bench.seconds = seconds_since(start);
  bench.statistics = engine.statistics(counts_of(bench));
  Span{before, bench.statistics}.fill_in(bench);
  return {};
}

/// The plan for the same memory and the same context, with the speeds measured around the run.
Status predict(const ModelFacts& facts, const engine::EngineOptions& options, ModelBench& bench) {
  if (!bench.drive_limit) return {};
  const int threads = options.threads > 0 ? options.threads : engine::usable_cores();
  const auto fitted =
      engine::fit(*facts.architecture, *facts.reader, {options.context, threads}, bench.ram);
  if (!fitted) return {};
  SLUICE_ASSIGN(const engine::KernelReport kernels,
                engine::measure_kernels(threads, kKernelSeconds));
  engine::MachineSpeeds speeds = engine::speeds_of(kernels);
  speeds.drive = *bench.drive_limit;
  bench.prediction = engine::predict(*facts.architecture, fitted->placement, bench.chunk, speeds,
                                     {options.context, bench.tokens});
  bench.is_predicted = true;
  return {};
}

std::optional<double> better(std::optional<double> one, std::optional<double> other) {
  return one && other ? std::max(one, other) : one ? one : other;
}

double measured_rate(const ModelBench& bench) {
  return static_cast<double>(bench.bytes_read) / bench.seconds;
}

}  // namespace

double ModelBench::median_s() const {
  if (token_s.empty()) return seconds / static_cast<double>(tokens);
  std::vector<double> sorted = token_s;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

Result<ModelBench> bench_model(BenchKind kind, const BenchOptions& asked) {
  const ComputeOptions& options = asked.compute;
  SLUICE_ASSIGN(const ModelFacts facts, gather_facts(options.model, options.model_folders));
  std::vector<fs::path> paths;
  for (const store::ShardFile& file : facts.files) {
    paths.push_back(file.path);
    paths.insert(paths.end(), file.copies.begin(), file.copies.end());
  }
  const engine::TrialFiles files = engine::TrialFiles::among(paths);
  ModelBench bench;
  bench.kind = kind;
  bench.tokens = asked.tokens;
  SLUICE_ASSIGN(const auto before, drive_speed(files, options.io));
  Interrupts::watch();
  engine::EngineOptions open = engine_options(options, asked.warm + asked.tokens);
  open.trunk_share = asked.trunk_share;
  open.history.clear();  // ids without a meaning teach nothing
  {
    SLUICE_ASSIGN(const auto engine, engine::Engine::open(open));
    open.context = engine->options().context;
    bench.ram = *engine->options().ram;
    bench.chunk = engine->chunk();
    SLUICE_TRY(run(*engine, asked.warm, bench));
  }
  SLUICE_ASSIGN(const auto after, drive_speed(files, options.io));
  bench.drive_limit = better(before, after);
  SLUICE_TRY(predict(facts, open, bench));
  return bench;
}

nlohmann::ordered_json to_json(const ModelBench& bench) {
  Json out = {{"bench", bench.kind == BenchKind::decode ? "decode" : "prefill"},
              {"tokens", bench.tokens},
              {"ram_bytes", bench.ram},
              {"chunk", bench.chunk},
              {"seconds", bench.seconds},
              {"seconds_per_token", bench.median_s()},
              {"tokens_per_s", static_cast<double>(bench.tokens) / bench.seconds},
              {"io_wait_s", bench.io_wait_s},
              {"drive_busy_s", bench.drive_busy_s},
              {"bytes_read", bench.bytes_read},
              {"bytes_per_token", bench.bytes_read / bench.tokens},
              {"bytes_per_s", measured_rate(bench)},
              {"expert_hit_rate", bench.hit_rate}};
  if (!bench.token_s.empty()) out["token_s"] = bench.token_s;
  if (bench.drive_limit) {
    out["drive_bytes_per_s"] = *bench.drive_limit;
    out["of_drive"] = measured_rate(bench) / *bench.drive_limit;
  }
  if (!bench.is_predicted) return out;
  const engine::Prediction& prediction = bench.prediction;
  if (bench.kind == BenchKind::decode) {
    out["predicted"] = {
        {"seconds_per_token", {{"low", prediction.seconds.low}, {"high", prediction.seconds.high}}},
        {"bytes_per_token", {{"low", prediction.bytes.low}, {"high", prediction.bytes.high}}},
        {"limit", name_of(prediction.token.limit())}};
  } else {
    out["predicted"] = {
        {"seconds", {{"low", prediction.ttft_s.low}, {"high", prediction.ttft_s.high}}},
        {"limit", name_of(prediction.ttft_limit)}};
  }
  return out;
}

std::string to_text(const ModelBench& bench) {
  const auto tokens = static_cast<double>(bench.tokens);
  const bool decode = bench.kind == BenchKind::decode;
  std::string text =
      fmt::format("{} {} tokens with {} of memory: {}, {} a token ({}), {:.3g} tokens/s\n",
                  decode ? "decoded" : "a prompt of", bench.tokens, format_size(bench.ram),
                  duration(bench.seconds), duration(bench.median_s()), decode ? "median" : "mean",
                  tokens / bench.seconds);
  text += fmt::format("read {} a token, {:.2f} GB/s; waited for bytes {:.0f} % of the time\n",
                      format_size(bench.bytes_read / bench.tokens), measured_rate(bench) / 1e9,
                      100 * bench.io_wait_s / bench.seconds);
  text += fmt::format("{:.1f} % of the picked experts were in memory\n", 100 * bench.hit_rate);
  if (bench.drive_limit) {
    text += fmt::format("the drive gives {:.2f} GB/s: {:.0f} % of it were used\n",
                        *bench.drive_limit / 1e9, 100 * measured_rate(bench) / *bench.drive_limit);
  } else {
    text += "the files are too small to measure their drive with\n";
  }
  if (!bench.is_predicted) return text;
  const engine::Prediction& prediction = bench.prediction;
  const engine::Range& range = decode ? prediction.seconds : prediction.ttft_s;
  return text + fmt::format("predicted {} to {} {}; limit: {}\n", duration(range.low),
                            duration(range.high), decode ? "a token" : "in all",
                            name_of(decode ? prediction.token.limit() : prediction.ttft_limit));
}

}  // namespace sluice::cli
