// sluice perplexity: how well the model foretells a text.
#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "cli/adapter_options.h"
#include "cli/command.h"
#include "cli/compute_options.h"
#include "cli/flags.h"
#include "cli/interrupts.h"
#include "cli/output.h"
#include "cli/output_check.h"
#include "cli/progress.h"
#include "cli/prompt.h"
#include "cli/statistics_output.h"
#include "cli/tokens.h"
#include "engine/engine.h"

namespace sluice::cli {
namespace {

/// Minus the logarithm of the probability that `logits` give to a token.
double surprise(std::span<const float> logits, std::int32_t token) {
  const double highest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - highest);
  return highest + std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(token)]);
}

/// What is known of the text so far.
struct Tally {
  double sum = 0;
  double squares = 0;
  std::size_t tokens = 0;

  void add(double each) {
    sum += each;
    squares += each * each;
    ++tokens;
  }
  double mean() const { return sum / static_cast<double>(tokens); }
  double perplexity() const { return std::exp(mean()); }
  /// One standard error of the perplexity, as if tokens were independent.
  double error() const {
    const auto n = static_cast<double>(tokens);
    const double variance = std::max(squares / n - mean() * mean(), 0.0);
    return tokens < 2 ? 0 : perplexity() * std::sqrt(variance / (n - 1));
  }
};

class Perplexity final : public Command {
 public:
  explicit Perplexity(CLI::App& app) {
    add_prompt_options(app, prompt_);
    app.get_option("--prompt")->description("The text to measure");
    add_count(app, "--window", window_, 2, std::size_t{1} << 20,
              "Tokens of a window, from 2 on. Each window is read from an empty context; all its "
              "tokens but the first are foretold; default: 512");
    app.add_flag("--json", json_, "Print one JSON object");
    add_one_adapter(app, compute_);
    add_compute_options(app, compute_);
    app.footer(
        "The text is cut into windows without overlap; the rest behind the last whole window "
        "counts too.\n\n"
        "Example:\n"
        "  sluice perplexity models/k3-nano -f text.txt --window 256 --ram 21M");
  }

  Status execute() override {
    SLUICE_TRY(check_outputs(compute_, {}, {prompt_.file.value_or("-")}));
    SLUICE_ASSIGN(adapter_, chosen_adapter(compute_));
    SLUICE_ASSIGN(const std::vector<std::int32_t> ids,
                  prompt_ids(prompt_, compute_.model, memory_check(compute_)));
    if (ids.size() < 2) {
      return fail(ErrorKind::usage, "the text has {}; two are the least that can be foretold",
                  ids.empty() ? "no token" : "one token");
    }
    SLUICE_ASSIGN(StatisticsOutput statistics, StatisticsOutput::prepare(compute_));
    engine::EngineOptions asked = engine_options(compute_, std::min(window_, ids.size()));
    asked.prompt = std::min(window_, ids.size());
    asked.all_logits = true;
    SLUICE_ASSIGN(const auto engine, engine::Engine::open(asked));
    Interrupts::watch();
    engine::TokenCounts counts;
    Tally tally;
    const Status status = read_windows(*engine, ids, tally, counts);
    const Status written = statistics.write(engine->statistics(counts));
    SLUICE_TRY(status);
    SLUICE_TRY(written);
    return print(tally, ids.size());
  }

 private:
  Status read_windows(engine::Engine& engine, std::span<const std::int32_t> ids, Tally& tally,
                      engine::TokenCounts& counts) const {
    ProgressLine line(compute_.quiet);
    FeedProgress progress(line, "text");
    const auto start = Clock::now();
    for (std::size_t first = 0; first + 1 < ids.size(); first += window_) {
      const auto window = ids.subspan(first, std::min(window_, ids.size() - first));
      engine::FeedOptions feed;
      feed.cancellation = &Interrupts::cancellation();
      feed.on_progress = [&](engine::Progress now) {  // of the window: show it of the text
        now.tokens_done += first;
        now.tokens = ids.size();
        now.seconds = seconds_since(start);
        progress.show(now);
      };
      feed.on_logits = [&](std::size_t position, std::span<const float> logits) -> Status {
        add_surprises(window, position, logits, engine.shape().vocabulary, tally);
        return {};
      };
      SLUICE_ASSIGN(const auto sequence, engine.new_sequence(adapter_));
      SLUICE_TRY(engine.feed(*sequence, window, feed));
      counts.prompt_tokens += window.size();
    }
    counts.prefill_s = seconds_since(start);
    return {};
  }

  /// logits: [positions, vocabulary], of the positions from `first` on.
  static void add_surprises(std::span<const std::int32_t> window, std::size_t first,
                            std::span<const float> logits, std::size_t vocabulary, Tally& tally) {
    for (std::size_t i = 0; i * vocabulary < logits.size(); ++i) {
      const std::size_t next = first + i + 1;
      if (next == window.size()) break;
      tally.add(surprise(logits.subspan(i * vocabulary, vocabulary), window[next]));
    }
  }

  Status print(const Tally& tally, std::size_t tokens) const {
    const std::string text =
        json_ ? fmt::format(
                    "{{\"perplexity\": {:.6f}, \"standard_error\": {:.6f}, \"tokens\": {}, "
                    "\"foretold\": {}, \"window\": {}}}\n",
                    tally.perplexity(), tally.error(), tokens, tally.tokens, window_)
              : fmt::format("perplexity {:.4f} +- {:.4f} over {} of {} tokens, in windows of {}\n",
                            tally.perplexity(), tally.error(), tally.tokens, tokens, window_);
    return Output::standard().write(text);
  }

  ComputeOptions compute_;
  PromptOptions prompt_;
  std::uint32_t adapter_ = 0;
  std::size_t window_ = 512;
  bool json_ = false;
};

}  // namespace

Registered add_perplexity(CLI::App& program) {
  CLI::App* app = program.add_subcommand("perplexity", "Measure how well a text is foretold");
  return {app, std::make_unique<Perplexity>(*app)};
}

}  // namespace sluice::cli
