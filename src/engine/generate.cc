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
    if (is_drafted(id)) {
      logits = accept_draft();
    } else {
      SLUICE_ASSIGN(logits, run_pass(id, options_.max_new - answer.ids.size()));
    }
    ++counts_.decoded_tokens;
    counts_.decode_s += seconds_since(start);
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
    judge_last_pass();
    fed_.assign(1, id);
    draft(wanted);
    FeedOptions feed = options_.feed;
    feed.drafts = fed_.size() - 1;
    // Stopping inside a pass would leave layers on different sides of the token. The pass is
    // finished instead, so that the sequence can be continued.
    if (options_.keep_sequence) feed.cancellation = nullptr;
    const auto start = Clock::now();
    SLUICE_ASSIGN(rows_, engine_.feed(sequence_, fed_, feed));
    pass_s_ = seconds_since(start);
    accepted_ = 0;
    counts_.drafted_tokens += rows_.size() / engine_.shape().vocabulary - 1;
    return row(0);
  }

  /// Adds guesses to what is fed, none behind one that would end the answer now.
  void draft(std::size_t wanted) {
    if (options_.drafts == 0) return;
    const std::size_t room = sequence_.context() - sequence_.length() - 1;
    const std::size_t most = std::min({options_.drafts, wanted - 1, room});
    const bool judges = engine_.options().judges_drafts;
    drafter_.guess(judges ? engine_.draft_judge().drafts(most) : most, fed_);
    const auto end =
        std::find_if(fed_.begin() + 1, fed_.end(), [&](std::int32_t draft) { return ends(draft); });
    fed_.erase(end, fed_.end());
  }

  /// Whether the last pass computed what is behind this token, too.
  bool is_drafted(std::int32_t id) const {
    const std::size_t next = accepted_ + 1;
    return next * engine_.shape().vocabulary < rows_.size() && fed_[next] == id;
  }

  std::span<const float> accept_draft() {
    const auto start = Clock::now();
    engine_.accept(sequence_, 1);
    pass_s_ += seconds_since(start);
    ++counts_.accepted_drafts;
    return row(++accepted_);
  }

  /// Once it is known what became of its drafts.
  void judge_last_pass() {
    if (options_.drafts == 0 || fed_.empty()) return;
    engine_.draft_judge().judge(fed_.size() - 1, accepted_, pass_s_);
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
  // Of the last pass.
  std::vector<std::int32_t> fed_;  // a token and the drafts behind it
  std::span<const float> rows_;    // logits of what was computed of them, [rows, vocabulary]
  std::size_t accepted_ = 0;       // of the drafts, so far
  double pass_s_ = 0;              // it took, with what was accepted

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
