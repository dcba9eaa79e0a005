// sluice bench: how fast the parts of this machine are, each beside its limit of the same minute.
#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/size.h"
#include "cli/bench_model.h"
#include "cli/command.h"
#include "cli/compute_options.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/output_check.h"
#include "cli/statistics_output.h"
#include "cli/words.h"
#include "engine/drive_speed.h"
#include "engine/kernel_speed.h"
#include "engine/machine.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::array kWays = {io::IoMode::pread, io::IoMode::uring, io::IoMode::mmap};

struct DriveOptions {
  std::vector<fs::path> paths;
  std::optional<std::uint64_t> extent;
  std::optional<std::uint64_t> temporary;
  std::size_t rounds = 2;
};

/// The best of the rounds, each way in turn, since a drive's speed drifts.
Result<Json> bench_drive(const fs::path& path, const DriveOptions& options,
                         const std::vector<io::IoMode>& ways) {
  SLUICE_ASSIGN(const engine::TrialFiles files,
                engine::TrialFiles::find(path, options.temporary.value_or(256 << 20)));
  std::vector<engine::DriveSpeed> best(ways.size());
  for (std::size_t round = 0; round < options.rounds; ++round) {
    for (std::size_t way = 0; way < ways.size(); ++way) {
      engine::DriveTrial trial;
      trial.mode = ways[way];
      if (options.extent) trial.extent_bytes = *options.extent;
      SLUICE_ASSIGN(const engine::DriveSpeed speed, engine::measure_drive(files, trial));
      if (speed.bytes_per_s > best[way].bytes_per_s) best[way] = speed;
    }
  }
  const double most = std::ranges::max(best, {}, &engine::DriveSpeed::bytes_per_s).bytes_per_s;
  Json out = {{"path", path.string()}, {"temporary_file", files.is_temporary()}};
  for (std::size_t way = 0; way < ways.size(); ++way) {
    const engine::DriveSpeed& speed = best[way];
    const double gigabytes = static_cast<double>(speed.bytes) / 1e9;
    out["readers"].push_back({{"io", name_of(ways[way])},
                              {"bytes_per_s", speed.bytes_per_s},
                              {"of_best", speed.bytes_per_s / most},
                              {"direct", speed.direct},
                              {"cpu_s_per_gb", speed.cpu_s / gigabytes}});
  }
  return out;
}

std::string drive_text(const Json& drive) {
  std::string text =
      fmt::format("{}{}\n", drive["path"].get<std::string>(),
                  drive["temporary_file"].get<bool>() ? " (a temporary file, just written)" : "");
  for (const Json& each : drive["readers"]) {
    text +=
        fmt::format("  {:<10}{:>7.2f} GB/s {:>5.0f} % of the best {:>7.0f} ms CPU/GB{}\n",
                    each["io"].get<std::string>(), each["bytes_per_s"].get<double>() / 1e9,
                    100 * each["of_best"].get<double>(), 1000 * each["cpu_s_per_gb"].get<double>(),
                    each["direct"].get<bool>() ? "" : "  through the page cache");
  }
  return text;
}

Json kernels_json(const engine::KernelReport& report) {
  Json out = {{"threads", report.threads},
              {"read_bytes_per_s", {{"one", report.read_one}, {"all", report.read_all}}},
              {"kernels", Json::array()}};
  for (const engine::KernelSpeed& each : report.kernels) {
    out["kernels"].push_back({{"weights", each.name},
                              {"positions", each.positions},
                              {"threads", each.threads},
                              {"bytes_per_s", each.bytes_per_s},
                              {"of_read", each.of_read},
                              {"multiply_adds_per_s", each.multiplies_per_s}});
  }
  return out;
}

std::string kernels_text(const engine::KernelReport& report) {
  std::string text = fmt::format("a loop that only reads: {:.1f} GB/s on 1 thread, {:.1f} on {}\n",
                                 report.read_one / 1e9, report.read_all / 1e9, report.threads);
  text += fmt::format("{:<10}{:>10}{:>9}{:>12}{:>12}{:>22}\n", "weights", "positions", "threads",
                      "GB/s", "of reading", "G multiply-adds/s");
  for (const engine::KernelSpeed& each : report.kernels) {
    text += fmt::format("{:<10}{:>10}{:>9}{:>12.1f}{:>10.0f} %{:>22.1f}\n", each.name,
                        each.positions, each.threads, each.bytes_per_s / 1e9, 100 * each.of_read,
                        each.multiplies_per_s / 1e9);
  }
  return text;
}

class Bench final : public Command {
 public:
  explicit Bench(CLI::App& app) {
    app.require_subcommand(1);
    add_drive(app);
    add_kernels(app);
    add_decode(app);
    add_prefill(app);
    app.footer(
        "Each takes seconds. Nothing is written, but for a temporary file without a name where a\n"
        "drive has no large file to read. --ram is for the run of a model: measuring the drive and "
        "the\n"
        "kernels before and after it takes up to 140 MiB more.\n\n"
        "Examples:\n"
        "  sluice bench drive /mnt/a /mnt/b\n"
        "  sluice bench kernels --threads 1\n"
        "  sluice bench decode /drive/part --ram 6G --tokens 8");
  }

  Status execute() override { return work_(); }

 private:
  /// A kind of bench; `work` runs if it is chosen.
  CLI::App* kind(CLI::App& app, const std::string& name, const std::string& description,
                 std::function<Status()> work) {
    CLI::App* added = app.add_subcommand(name, description);
    added->callback([this, work = std::move(work)] { work_ = work; });
    added->add_flag("--json", json_, "Print a JSON object");
    return added;
  }

  void add_drive(CLI::App& app) {
    CLI::App* drive = kind(app, "drive", "Read random extents, in every way that there is",
                           [this] { return run_drive(); });
    drive->add_option("PATH", drive_.paths, "A file to read, or a folder on the drive")->required();
    add_size(*drive, "--extent", drive_.extent, "Of each read; default: one expert of K3");
    add_size(*drive, "--size", drive_.temporary,
             "Of the temporary file, where there is no large file; default: 256M");
    add_count(*drive, "--rounds", drive_.rounds, 1, 100, "The best counts; default: 2");
  }

  void add_kernels(CLI::App& app) {
    CLI::App* kernels = kind(app, "kernels", "Multiply weights that no cache holds",
                             [this] { return run_kernels(); });
    add_count(*kernels, "--threads", threads_, 1, 1024, "Default: one per core");
    add_count(*kernels, "--seconds", seconds_, 1, 3600, "In all; default: 3");
  }

  void add_decode(CLI::App& app) {
    CLI::App* decode = kind(app, "decode", "Decode tokens of a model",
                            [this] { return run_model(BenchKind::decode, decode_); });
    add_count(*decode, "--tokens", decode_.tokens, 1, 100'000, "To decode; default: 8");
    add_count(*decode, "--warm", decode_.warm, 0, 100'000,
              "Tokens before, which bring the weights into memory; default: 2");
    add_count(*decode, "--trunk-percent", trunk_percent_, 0, 100,
              "Of the memory for weights, how much the trunk may have; default: 100, what it "
              "leaves is the experts'. To compare with");
    add_compute_options(*decode, decode_.compute);
  }

  void add_prefill(CLI::App& app) {
    CLI::App* prefill = kind(app, "prefill", "Feed a prompt to a model",
                             [this] { return run_model(BenchKind::prefill, prefill_); });
    add_count(*prefill, "--tokens", prefill_.tokens, 1, 1'000'000, "Of the prompt; default: 128");
    add_compute_options(*prefill, prefill_.compute);
  }

  Status run_drive() {
    Json all = {{"drives", Json::array()}};
    std::string text;
    std::vector<io::IoMode> ways(kWays.begin(), kWays.end());
    if (const std::string refusal = engine::look_at_machine().io_uring_refusal; !refusal.empty()) {
      std::erase(ways, io::IoMode::uring);  // it would be pread by another name
      all["io_uring_refusal"] = refusal;
      text = fmt::format("io_uring cannot be used here: {}\n", refusal);
    }
    for (const fs::path& path : drive_.paths) {
      SLUICE_ASSIGN(const Json one, bench_drive(path, drive_, ways));
      text += drive_text(one);
      all["drives"].push_back(one);
    }
    return Output::standard().write(json_ ? dumped(all) : text);
  }

  Status run_kernels() {
    const int threads = threads_ > 0 ? threads_ : engine::usable_cores();
    SLUICE_ASSIGN(const engine::KernelReport report, engine::measure_kernels(threads, seconds_));
    return Output::standard().write(json_ ? dumped(kernels_json(report)) : kernels_text(report));
  }

  Status run_model(BenchKind what, BenchOptions options) {
    options.trunk_share = trunk_percent_ / 100.0;
    SLUICE_TRY(check_outputs(options.compute));
    SLUICE_ASSIGN(StatisticsOutput statistics, StatisticsOutput::prepare(options.compute));
    SLUICE_ASSIGN(const ModelBench bench, bench_model(what, options));
    SLUICE_TRY(Output::standard().write(json_ ? dumped(to_json(bench)) : to_text(bench)));
    return statistics.write(bench.statistics);
  }

  std::function<Status()> work_;
  bool json_ = false;
  DriveOptions drive_;
  int threads_ = 0;
  double seconds_ = 3;
  BenchOptions decode_ = {.compute = {}, .tokens = 8, .warm = 2};
  BenchOptions prefill_ = {.compute = {}, .tokens = 128};
  int trunk_percent_ = 100;
};

}  // namespace

Registered add_bench(CLI::App& program) {
  CLI::App* app = program.add_subcommand("bench", "Measure drives, kernels, decoding or prompts");
  return {app, std::make_unique<Bench>(*app)};
}

}  // namespace sluice::cli
