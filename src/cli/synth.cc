// sluice synth: checkpoints of K3's shape without K3's weights.
#include "engine/synth.h"

#include <string>

#include "base/clock.h"
#include "base/size.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/interrupts.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace sluice::cli {
namespace {

class Synth final : public Command {
 public:
  explicit Synth(CLI::App& app) {
    app.add_option("MODEL", model_, "What to imitate: kimi-k3")
        ->required()
        ->check(CLI::IsMember({"kimi-k3"}));
    app.add_option("DIR", options_.folder, "Where to write; made if missing")->required();
    add_count(app, "--layers", options_.layers, 2, 999, "Layers, 2 to 999; default: 93, as K3 has");
    add_count(app, "--experts", options_.experts, 1, 9999,
              "Routed experts per layer, 1 to 9999; default: 896, as K3 has");
    add_count(app, "--vocab", options_.vocabulary, 512, 1048576,
              "Token ids, 512 to 1048576; default: 163840, as K3 has");
    add_count(app, "--seed", options_.seed, 0, UINT64_MAX,
              "Of the random weights; the same seed gives the same files; default: 1");
    app.add_flag("--sparse", options_.sparse,
                 "True headers and sizes, but holes for data: takes almost no room");
    app.add_flag("-q,--quiet", quiet_, "No progress");
    app.footer(
        "Widths, names and file format are Kimi K3's, so a machine can be tested before a "
        "download\n"
        "of 1.56 TB. An interrupted run goes on where it stopped when it is started again.\n\n"
        "Examples:\n"
        "  sluice synth kimi-k3 /drive/shape --sparse      # the full shape, 96 files, no data\n"
        "  sluice synth kimi-k3 /drive/part --layers 6     # real bytes: what can the drive do?");
  }

  Status execute() override {
    SLUICE_ASSIGN(const engine::SynthSize size, engine::synth_size(options_));
    Interrupts::watch();
    ProgressLine line(quiet_);
    const auto start = Clock::now();
    SLUICE_TRY(engine::synthesize_kimi_k3(
        options_, [&](const engine::SynthProgress& now) { show(line, now, seconds_since(start)); },
        &Interrupts::cancellation()));
    line.erase();
    return Output::standard().write(fmt::format(
        "{}: {} shards, {} tensors, {} of weights{}, {} on the drive, {}\n",
        options_.folder.string(), size.shards, size.tensors, format_size(size.payload_bytes),
        options_.sparse ? " (holes: every weight is zero)" : "", format_size(size.disk_bytes),
        format_seconds(seconds_since(start))));
  }

 private:
  static void show(ProgressLine& line, const engine::SynthProgress& now, double seconds) {
    if (!line.is_due()) return;
    const double share = now.bytes_total > 0 ? static_cast<double>(now.bytes_done) /
                                                   static_cast<double>(now.bytes_total)
                                             : 0;
    std::string text = fmt::format("{} ({} of {}), {} of {}", now.file, now.shard, now.shards,
                                   format_size(now.bytes_done), format_size(now.bytes_total));
    if (share > 0 && seconds > 0) {
      text +=
          fmt::format(", {:.0f} MB/s, {} left", static_cast<double>(now.bytes_done) / seconds / 1e6,
                      format_seconds(seconds * (1 - share) / share));
    }
    line.show(text);
  }

  std::string model_;
  engine::SynthOptions options_;
  bool quiet_ = false;
};

}  // namespace

Registered add_synth(CLI::App& program) {
  CLI::App* app = program.add_subcommand("synth", "Write a checkpoint of K3's shape for tests");
  return {app, std::make_unique<Synth>(*app)};
}

}  // namespace sluice::cli
