#include "engine/generate.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "engine/drafter.h"

namespace sluice::engine {

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::length:
      return "length";
    case FinishReason::end_of_turn:
      return "end_of_turn";
    case FinishReason::stopped:
      return "stopped";
    case FinishReason::context:
      return "context";
    case FinishReason::interrupted:
      return "interrupted";
  }
  return "?";
}

namespace {

/// One answer on its way.
class Generator {
 public:
  Generator(Engine& engine, model::SequenceState& sequence, const GenerateOptions& options,
            TokenCounts& counts)
      : engine_(engine),
        sequence_(sequence),
        options_(options),
        counts_(counts),
        drafter_(options.drafts > 0 ? sequence.context() : 0) {
    remember(options_.before);
  }

  Result<Generated> run(std::span<const std::int32_t> prompt,
                        const std::function<bool(std::int32_t id)>& on_token) {
    SLUICE_TRY(text::validate(options_.sampling));
    SLUICE_ASSIGN(const std::span<const float> logits,
                  engine_.feed(sequence_, prompt, options_.feed));
    remember(prompt);
    counts_.prompt_tokens += prompt.size();
    counts_.last_prompt_tokens = prompt.size();
    counts_.prefill_s += seconds_since(start_);
    return go_on(logits, on_token);
  }

  Result<Generated> go_on(std::span<const float> logits,
                          const std::function<bool(std::int32_t id)>& on_token) {
    SLUICE_ASSIGN(text::Sampler sampler, text::Sampler::create(options_.sampling));
    Generated answer;
    for (const std::int32_t id : options_.known) {
      sampler.replay(id);
      SLUICE_ASSIGN(const bool is_over, follow(id));
      answer.ids.push_back(id);
      remember({&id, 1});
      if (!on_token(id)) return finish(std::move(answer), FinishReason::stopped);
      if (is_over) return finish(std::move(answer), FinishReason::end_of_turn);
    }
    if (!options_.known.empty()) {
      SLUICE_ASSIGN(const auto end, feed_last(answer, logits));
      if (end) return finish(std::move(answer), *end);
    }
    while (answer.ids.size() < options_.max_new) {
      SLUICE_ASSIGN(const std::int32_t id, choose(sampler, logits));
      if (answer.ids.empty()) counts_.ttft_s = seconds_since(start_);
      if (options_.on_choice) options_.on_choice(logits, id);
      if (ends(id)) return finish(std::move(answer), FinishReason::end_of_turn);
      answer.ids.push_back(id);
      remember({&id, 1});
      ++counts_.generated_tokens;
      SLUICE_ASSIGN(const bool is_over, follow(id));
      if (!on_token(id)) return finish(std::move(answer), FinishReason::stopped);
      if (is_over) return finish(std::move(answer), FinishReason::end_of_turn);
      SLUICE_ASSIGN(const auto end, feed_last(answer, logits));
      if (end) return finish(std::move(answer), *end);
    }
    return finish(std::move(answer), FinishReason::length);
  }

 private:
  /// Feeds the last token, for the next one's logits; or says why the answer ends with it.
  Result<std::optional<FinishReason>> feed_last(const Generated& answer,
                                                std::span<const float>& logits) {
    if (answer.ids.size() >= options_.max_new) return FinishReason::length;
    if (cancelled()) return FinishReason::interrupted;
    if (sequence_.length() == sequence_.context()) return FinishReason::context;
    const std::int32_t id = answer.ids.back();
    const auto start = Clock::now();
    if (next_draft_ < drafts_.size() && drafts_[next_draft_] == id) {
      logits = accept_draft();
    } else {
      SLUICE_ASSIGN(logits, run_pass(id, options_.max_new - answer.ids.size()));
    }
    ++counts_.decoded_tokens;
    counts_.decode_s += seconds_since(start);
    pass_s_ += seconds_since(start);
    return std::nullopt;
  }

  Result<std::int32_t> choose(text::Sampler& sampler, std::span<const float> logits) {
    if (options_.constraint == nullptr) return sampler.next(logits);
    SLUICE_ASSIGN(const text::TokenMask* allowed, options_.constraint->allowed());
    return sampler.next(logits, allowed);
  }

  bool ends(std::int32_t id) const {
    if (options_.constraint != nullptr) return options_.constraint->ends(id);
    return std::ranges::find(options_.stop_ids, id) != options_.stop_ids.end();
  }

  /// Takes the constraint along. True if nothing may follow.
  Result<bool> follow(std::int32_t id) {
    if (options_.constraint == nullptr) return false;
    SLUICE_TRY(options_.constraint->push(id));
    return options_.constraint->is_over();
  }

  /// The logits behind a token, and behind drafts that may follow it. `wanted`: tokens that the
  /// answer may still get, of which the last is not fed.
  Result<std::span<const float>> run_pass(std::int32_t id, std::size_t wanted) {
    if (judge_passes_) judge_.judge(drafts_.size(), next_draft_, pass_s_);
    judge_passes_ = options_.drafts > 0;
    pass_s_ = 0;
    next_draft_ = 0;
    const std::size_t room = sequence_.context() - sequence_.length() - 1;
    const std::size_t most = std::min({options_.drafts, wanted - 1, room});
    const auto guess = judge_.may_draft() ? drafter_.guess(most) : std::span<const std::int32_t>();
    drafts_.assign(guess.begin(), guess.end());
    fed_.assign(1, id);
    fed_.insert(fed_.end(), guess.begin(), guess.end());
    FeedOptions feed = options_.feed;
    feed.drafts = drafts_.size();
    // Stopping inside a pass would leave layers on different sides of the token. One token is
    // finished instead, so that the sequence can be continued.
    if (options_.keep_sequence) feed.cancellation = nullptr;
    SLUICE_ASSIGN(rows_, engine_.feed(sequence_, fed_, feed));
    counts_.drafted_tokens += drafts_.size();
    return row(0);
  }

  /// The same where the last pass fed that token already.
  std::span<const float> accept_draft() {
    engine_.accept(sequence_, 1);
    ++counts_.accepted_tokens;
    return row(++next_draft_);
  }

  std::span<const float> row(std::size_t index) const {
    const std::size_t vocabulary = engine_.shape().vocabulary;
    return rows_.subspan(index * vocabulary, vocabulary);
  }

  void remember(std::span<const std::int32_t> ids) {
    if (options_.drafts == 0) return;
    for (const std::int32_t id : ids) drafter_.push(id);
  }

  bool cancelled() const {
    const Cancellation* cancellation = options_.feed.cancellation;
    return cancellation != nullptr && cancellation->requested();
  }

  static Generated finish(Generated answer, FinishReason reason) {
    answer.reason = reason;
    return answer;
  }

  Engine& engine_;
  model::SequenceState& sequence_;
  const GenerateOptions& options_;
  TokenCounts& counts_;
  Drafter drafter_;
  DraftJudge judge_;
  bool judge_passes_ = false;         // there was one
  std::vector<std::int32_t> drafts_;  // of the last pass
  std::size_t next_draft_ = 0;        // that was not accepted
  double pass_s_ = 0;                 // it took, with what was accepted since
  std::vector<std::int32_t> fed_;     // with the token before the drafts
  std::span<const float> rows_;       // its logits, [1 + drafts, vocabulary]
  const Clock::time_point start_ = Clock::now();
};

}  // namespace

Result<Generated> generate(Engine& engine, model::SequenceState& sequence,
                           std::span<const std::int32_t> prompt, const GenerateOptions& options,
                           const std::function<bool(std::int32_t id)>& on_token,
                           TokenCounts& counts) {
  return Generator(engine, sequence, options, counts).run(prompt, on_token);
}

Result<Generated> go_on(Engine& engine, model::SequenceState& sequence,
                        std::span<const float> logits, const GenerateOptions& options,
                        const std::function<bool(std::int32_t id)>& on_token, TokenCounts& counts) {
  return Generator(engine, sequence, options, counts).go_on(logits, on_token);
}

}  // namespace sluice::engine
