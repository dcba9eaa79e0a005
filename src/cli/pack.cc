// sluice pack: a model's weights in the order of their use, dealt to several drives.
#include "engine/pack.h"

#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/size.h"
#include "cli/command.h"
#include "cli/compute_options.h"
#include "cli/flags.h"
#include "cli/interrupts.h"
#include "cli/output.h"
#include "cli/walk_progress.h"

namespace sluice::cli {
namespace {

/// How --speed is given.
struct SpeedChoice {
  bool equal = false;
  std::vector<double> numbers;
};

Result<double> parse_speed(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) ||
      !std::isfinite(value) || value > 1e12) {
    return fail(ErrorKind::usage, "'{}' is no speed: expected a number above 0",
                text.substr(0, 40));
  }
  return value;
}

Result<SpeedChoice> parse_speeds(const std::string& text) {
  SpeedChoice choice;
  if (text == "measured") return choice;
  if (text == "equal") {
    choice.equal = true;
    return choice;
  }
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    SLUICE_ASSIGN(const double speed, parse_speed(rest.substr(0, comma)));
    choice.numbers.push_back(speed);
    if (comma == std::string_view::npos) return choice;
    rest.remove_prefix(comma + 1);
  }
}

class Pack final : public Command {
 public:
  explicit Pack(CLI::App& app) {
    app.add_option("MODEL", options_.model,
                   "The model's folder, as downloaded, its index or a weight file "
                   "(safetensors, not GGUF); or a pack")
        ->required();
    add_model_folders(app, options_.model_folders);
    app.add_option("--out", options_.folders,
                   "Where to write, once per drive; the first one is the model from then on")
        ->type_name("DIR")
        ->required()
        ->allow_extra_args(false);
    add_parsed(
        app, "--speed", "A,B,..",
        "What each drive can do, in the order of --out: only the ratios count; or equal; default: "
        "measured",
        parse_speeds, [this](SpeedChoice choice) { speed_ = std::move(choice); });
    add_size(app, "--stripe", stripe_,
             "Bytes that go to a drive before the next one gets some, a multiple of 4K; default: "
             "1M");
    app.add_flag("-q,--quiet", quiet_, "No progress");
    app.footer(
        "Every block is aligned, lies in the order of use and has a checksum, which is compared\n"
        "whenever it is read. With several drives each block is spread over all of them, in\n"
        "proportion to their speed. The results of a pack are those of the checkpoint, bit for "
        "bit.\n\n"
        "Ended at any moment, even by a power cut, the same command goes on where it was; before\n"
        "the pack is done everything is read back and compared. Exit 3 and 5 name what is wrong.\n"
        "\n"
        "Examples:\n"
        "  sluice pack /hdd/Kimi-K3 --out /nvme1/k3 --out /nvme2/k3\n"
        "  sluice run /nvme1/k3 -p \"Hello\"\n"
        "  sluice pack /hdd/Kimi-K3 --out /nvme/k3 --out /usb/k3 --speed 3.2,0.9");
  }

  Status execute() override {
    if (stripe_) options_.chunk_bytes = *stripe_;
    constexpr std::uint64_t kMostStripe = std::uint64_t{1} << 40;
    if (options_.chunk_bytes % 4096 != 0 || options_.chunk_bytes > kMostStripe) {
      return fail(ErrorKind::usage, "--stripe {}: expected a multiple of 4096 bytes, at most 1T",
                  options_.chunk_bytes);
    }
    if (options_.folders.size() > 64) {
      return fail(ErrorKind::usage, "--out is given {} times: expected at most 64",
                  options_.folders.size());
    }
    options_.speeds = speed_.numbers;
    if (speed_.equal) options_.speeds.assign(options_.folders.size(), 1.0);
    if (!options_.speeds.empty() && options_.speeds.size() != options_.folders.size()) {
      return fail(ErrorKind::usage, "--speed has {} numbers, but --out is given {} times",
                  options_.speeds.size(), options_.folders.size());
    }
    Interrupts::watch();
    WalkProgress progress(quiet_);
    const auto start = Clock::now();
    SLUICE_ASSIGN(const engine::PackSummary summary,
                  engine::pack(
                      options_, [&](const engine::PackProgress& now) { show(progress, now); },
                      &Interrupts::cancellation()));
    progress.erase();
    return Output::standard().write(report(summary, seconds_since(start)));
  }

 private:
  static void show(WalkProgress& progress, const engine::PackProgress& now) {
    const bool writing = now.stage == engine::PackProgress::Stage::writing;
    progress.show(writing ? "writing" : "reading back", now.bytes_done, now.bytes_before,
                  now.bytes_total);
  }

  std::string report(const engine::PackSummary& summary, double seconds) const {
    const std::string folder = options_.folders[0].string();
    if (summary.was_there) {
      return fmt::format("{}: this pack is finished already; sluice verify reads all of it\n",
                         folder);
    }
    std::string text = fmt::format(
        "{}: {} blocks with {} checksums, {} in {} {}, read back and right, {}\n", folder,
        summary.blocks, summary.checksums, format_size(summary.bytes), summary.parts.size(),
        summary.parts.size() == 1 ? "file" : "files", format_seconds(seconds));
    if (summary.resumed_at > 0) {
      text += fmt::format("  went on after {}\n", format_size(summary.resumed_at));
    }
    for (const engine::PackPart& part : summary.parts) {
      text += fmt::format("  {:>10}  {}\n", format_size(part.bytes), part.path.string());
    }
    for (const auto& unused : summary.unused) {
      text += fmt::format("  {} is too slow beside the others to help: nothing is there\n",
                          unused.string());
    }
    return text;
  }

  engine::PackOptions options_;
  SpeedChoice speed_;
  std::optional<std::uint64_t> stripe_;
  bool quiet_ = false;
};

}  // namespace

Registered add_pack(CLI::App& program) {
  CLI::App* app = program.add_subcommand("pack", "Write a model anew, for one or several drives");
  return {app, std::make_unique<Pack>(*app)};
}

}  // namespace sluice::cli
