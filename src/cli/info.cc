// sluice info: what a model is, and what memory sizes would do.
#include <malloc.h>

#include <optional>

#include "cli/command.h"
#include "cli/compute_options.h"
#include "cli/flags.h"
#include "cli/info_report.h"
#include "cli/output.h"
#include "engine/model_text.h"

namespace sluice::cli {
namespace {

class Info final : public Command {
 public:
  explicit Info(CLI::App& app) {
    add_model(app, model_);
    add_model_folders(app, folders_);
    add_size(app, "--ram", options_.ram, "Also say what this memory size would do");
    add_count(app, "--ctx", options_.context, 1, std::uint64_t{1} << 30,
              "Positions of the sequence that the memory lines are for; default: 4096");
    add_cache_format(app, cache_format_);
    app.add_flag("--json", json_,
                 "Print a JSON object; it also has the index of all blocks: file, offset, bytes");
    app.footer(
        "Reads the headers of the weight files, and no weight. What a memory size would do depends "
        "on the\n"
        "model, --ctx, --kv-type and the number of cores, not on what is free now.\n\n"
        "Examples:\n"
        "  sluice info models/k3-nano\n"
        "  sluice info /drive/Kimi-K3 --ram 48G");
  }

  Status execute() override {
    SLUICE_ASSIGN(ModelFacts facts, gather_facts(model_, folders_));
    if (const Status text = engine::check_text(model_); !text) {
      facts.notes.push_back(text.error().message + " (a run with text will not begin)");
    }
    facts.architecture->cache_as(cache_format_);
    malloc_trim(0);  // the directory of names is gone, and must not count in the forecasts
    SLUICE_ASSIGN(const std::vector<Forecast> forecasts, forecast(facts, options_));
    Output output = Output::standard();
    return json_ ? write_info_json(facts, forecasts, output)
                 : write_info_text(facts, forecasts, output);
  }

 private:
  std::filesystem::path model_;
  std::vector<std::filesystem::path> folders_;
  ForecastOptions options_;
  kernels::WeightFormat cache_format_ = kernels::WeightFormat::f32;
  bool json_ = false;
};

}  // namespace

Registered add_info(CLI::App& program) {
  CLI::App* app = program.add_subcommand("info", "Say what a model is and what memory would do");
  return {app, std::make_unique<Info>(*app)};
}

}  // namespace sluice::cli
