// sluice logits: what the model thinks, as arrays, for audits.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/adapter_options.h"
#include "cli/command.h"
#include "cli/compute_options.h"
#include "cli/interrupts.h"
#include "cli/npy.h"
#include "cli/output_check.h"
#include "cli/progress.h"
#include "cli/prompt.h"
#include "cli/statistics_output.h"
#include "cli/tokens.h"
#include "engine/engine.h"

namespace sluice::cli {
namespace {

struct LogitsOptions {
  ComputeOptions compute;
  PromptOptions prompt;
  std::filesystem::path out;
  std::filesystem::path hidden;
  std::filesystem::path routes;
};

/// The files, and the callbacks of a feed() that fill them. Chunks come position after position;
/// hidden states and routes are stored layer after layer.
class Recorder {
 public:
  static Result<std::unique_ptr<Recorder>> create(const LogitsOptions& options,
                                                  const model::Shape& shape,
                                                  std::size_t positions) {
    auto recorder = std::make_unique<Recorder>();
    recorder->shape_ = &shape;
    recorder->positions_ = positions;
    SLUICE_ASSIGN(recorder->logits_,
                  NpyFile::create(options.out, "<f4", {positions, shape.vocabulary}));
    if (!options.hidden.empty()) {
      SLUICE_ASSIGN(recorder->hidden_, NpyFile::create(options.hidden, "<f4",
                                                       {shape.layers, positions, shape.hidden}));
    }
    if (!options.routes.empty()) {
      SLUICE_ASSIGN(recorder->routes_,
                    NpyFile::create(options.routes, "<i4", {shape.layers, positions, shape.top_k}));
      SLUICE_TRY(recorder->fill_routes());
    }
    return recorder;
  }

  void attach(engine::FeedOptions& feed) {
    feed.on_logits = [this](std::size_t first, std::span<const float> logits) {
      return logits_->put(first * shape_->vocabulary, logits);
    };
    if (hidden_) {
      feed.on_hidden = [this](std::size_t first, std::size_t layer, std::span<const float> hidden) {
        return hidden_->put((layer * positions_ + first) * shape_->hidden, hidden);
      };
    }
    if (routes_) {
      feed.on_routes = [this](std::size_t first, std::size_t layer,
                              std::span<const std::int32_t> ids) {
        return routes_->put((layer * positions_ + first) * shape_->top_k, ids);
      };
    }
  }

  Status finish() {
    SLUICE_TRY(logits_->finish());
    if (hidden_) SLUICE_TRY(hidden_->finish());
    if (routes_) SLUICE_TRY(routes_->finish());
    return {};
  }

 private:
  /// -1 everywhere: layers without experts stay so.
  Status fill_routes() {
    const std::vector<std::int32_t> none(shape_->top_k, -1);
    for (std::size_t row = 0; row < shape_->layers * positions_; ++row) {
      SLUICE_TRY(routes_->put(row * shape_->top_k, std::span<const std::int32_t>(none)));
    }
    return {};
  }

  const model::Shape* shape_ = nullptr;
  std::size_t positions_ = 0;
  std::optional<NpyFile> logits_;
  std::optional<NpyFile> hidden_;
  std::optional<NpyFile> routes_;
};

class Logits final : public Command {
 public:
  explicit Logits(CLI::App& app) {
    add_prompt_options(app, options_.prompt);
    app.get_option("--prompt")->description("The text");
    const std::string group = "Files to write (.npy, format 1.0)";
    app.add_option("--out", options_.out, "Logits: float32 [positions, vocabulary]")
        ->required()
        ->type_name("L.npy")
        ->group(group);
    app.add_option("--hidden", options_.hidden,
                   "Hidden states after each layer: float32 [layers, positions, hidden]")
        ->type_name("H.npy")
        ->group(group);
    app.add_option("--routes", options_.routes,
                   "Experts by descending score: int32 [layers, positions, top-k]; -1: dense layer")
        ->type_name("R.npy")
        ->group(group);
    add_one_adapter(app, options_.compute);
    add_compute_options(app, options_.compute);
    app.footer(
        "The files are byte for byte the same for every choice of memory and speed.\n\n"
        "Example:\n"
        "  sluice logits models/k3-nano --ids 970,262,2634 --out l.npy --routes r.npy --ram 21M");
  }

  Status execute() override {
    SLUICE_TRY(check_files());
    SLUICE_ASSIGN(const std::uint32_t adapter, chosen_adapter(options_.compute));
    SLUICE_ASSIGN(
        const std::vector<std::int32_t> ids,
        prompt_ids(options_.prompt, options_.compute.model, size_check(options_.compute)));
    SLUICE_ASSIGN(StatisticsOutput statistics, StatisticsOutput::prepare(options_.compute));
    engine::EngineOptions engine_asked = engine_options(options_.compute, ids.size());
    engine_asked.prompt = ids.size();
    engine_asked.all_logits = true;
    SLUICE_ASSIGN(const auto engine, engine::Engine::open(engine_asked));
    Interrupts::watch();
    engine::TokenCounts counts;
    SLUICE_ASSIGN(const auto sequence, engine->new_sequence(adapter));
    const Status status = record(*engine, *sequence, ids, counts);
    const Status written = statistics.write(engine->statistics(counts));
    return status ? written : status;
  }

 private:
  /// Before anything takes time.
  Status check_files() const {
    SLUICE_TRY(check_outputs(
        options_.compute,
        {{"--out", options_.out}, {"--hidden", options_.hidden}, {"--routes", options_.routes}},
        {options_.prompt.file.value_or("-")}));
    for (const std::filesystem::path& path : {options_.out, options_.hidden, options_.routes}) {
      if (!path.empty()) SLUICE_TRY(NpyFile::check(path));
    }
    return {};
  }

  Status record(engine::Engine& engine, model::SequenceState& sequence,
                const std::vector<std::int32_t>& ids, engine::TokenCounts& counts) const {
    SLUICE_ASSIGN(const auto recorder, Recorder::create(options_, engine.shape(), ids.size()));
    ProgressLine line(options_.compute.quiet);
    FeedProgress progress(line);
    engine::FeedOptions feed;
    feed.cancellation = &Interrupts::cancellation();
    feed.on_progress = [&](const engine::Progress& now) { progress.show(now); };
    recorder->attach(feed);
    const auto start = Clock::now();
    SLUICE_TRY(engine.feed(sequence, ids, feed));
    counts.prompt_tokens = ids.size();
    counts.prefill_s = seconds_since(start);
    return recorder->finish();
  }

  LogitsOptions options_;
};

}  // namespace

Registered add_logits(CLI::App& program) {
  CLI::App* app = program.add_subcommand("logits", "Write logits, hidden states and routes");
  return {app, std::make_unique<Logits>(*app)};
}

}  // namespace sluice::cli
