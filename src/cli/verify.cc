// sluice verify: reads all of a model and says what is wrong with it.
#include "engine/verify.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/size.h"
#include "cli/command.h"
#include "cli/compute_options.h"
#include "cli/interrupts.h"
#include "cli/output.h"
#include "cli/walk_progress.h"
#include "cli/words.h"

namespace sluice::cli {
namespace {

class Verify final : public Command {
 public:
  explicit Verify(CLI::App& app) {
    add_model(app, options_.model);
    add_model_folders(app, options_.model_folders);
    app.add_flag("--json", json_, "Print a JSON object");
    app.add_flag("-q,--quiet", quiet_, "No progress");
    app.footer(
        "Configuration, tokenizer and generation_config.json must be such that a run can begin.\n"
        "Of a pack every checksum must hold, those of the small files too. Of a checkpoint every\n"
        "byte must be readable, no bf16, f16 or f32 value may be NaN or infinite, no MXFP4 scale\n"
        "may be 255; copies in --model-dir are compared byte by byte. That the bytes are those\n"
        "that were released only the publisher's own checksums can tell.\n\n"
        "All faults are listed. Exit 0: none; 3: damaged; 5: something could not be read.\n\n"
        "Examples:\n"
        "  sluice verify /nvme1/k3\n"
        "  sluice verify /drive/Kimi-K3 --json");
  }

  Status execute() override {
    Interrupts::watch();
    WalkProgress progress(quiet_);
    const auto start = Clock::now();
    SLUICE_ASSIGN(const engine::VerifyReport report, engine::verify(
                                                         options_,
                                                         [&](const engine::VerifyProgress& now) {
                                                           progress.show("reading", now.bytes_done,
                                                                         0, now.bytes_total);
                                                         },
                                                         &Interrupts::cancellation()));
    progress.erase();
    const double seconds = seconds_since(start);
    SLUICE_TRY(
        Output::standard().write(json_ ? json_of(report, seconds) : text_of(report, seconds)));
    if (report.faults == 0) return {};
    const bool unreadable = std::ranges::any_of(
        report.listed, [](const auto& fault) { return fault.kind == ErrorKind::drive; });
    return fail(unreadable ? ErrorKind::drive : ErrorKind::model_files, "{}: {} {}",
                options_.model.string(), report.faults, report.faults == 1 ? "fault" : "faults");
  }

 private:
  static std::string text_of(const engine::VerifyReport& report, double seconds) {
    std::string text;
    for (const engine::VerifyFault& fault : report.listed) text += fault.message + "\n";
    if (report.faults > report.listed.size()) {
      text += fmt::format("... and {} more\n", report.faults - report.listed.size());
    }
    return text + fmt::format("{} {}, {}, {}: {}\n", grouped(report.pieces),
                              report.is_pack ? "blocks" : "tensors", format_size(report.bytes),
                              duration(seconds),
                              report.faults == 0
                                  ? report.is_pack ? "all checksums hold" : "no fault found"
                                  : fmt::format("{} {}", grouped(report.faults),
                                                report.faults == 1 ? "fault" : "faults"));
  }

  std::string json_of(const engine::VerifyReport& report, double seconds) const {
    nlohmann::ordered_json faults = nlohmann::ordered_json::array();
    for (const engine::VerifyFault& fault : report.listed) {
      faults.push_back({{"kind", fault.kind == ErrorKind::drive ? "unreadable" : "damaged"},
                        {"message", fault.message}});
    }
    return dumped({{"model", options_.model.string()},
                   {"form", report.is_pack ? "pack" : "checkpoint"},
                   {report.is_pack ? "blocks" : "tensors", report.pieces},
                   {"bytes", report.bytes},
                   {"seconds", seconds},
                   {"faults", report.faults},
                   {"listed", std::move(faults)}});
  }

  engine::VerifyOptions options_;
  bool json_ = false;
  bool quiet_ = false;
};

}  // namespace

Registered add_verify(CLI::App& program) {
  CLI::App* app = program.add_subcommand("verify", "Read all of a model and list what is wrong");
  return {app, std::make_unique<Verify>(*app)};
}

}  // namespace sluice::cli
