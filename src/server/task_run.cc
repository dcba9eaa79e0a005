#include "server/task_run.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "engine/generate.h"
#include "text/token_constraint.h"

namespace sluice::server {
namespace {

// A long answer can be continued from here after a crash.
constexpr std::size_t kCheckpointTokens = 64;
// What is told of a prompt goes out in parts, none of which is large as JSON.
constexpr std::size_t kToldAtOnce = 64;

class TaskRun {
 public:
  TaskRun(const Workplace& place, Task& task)
      : place_(place), task_(task), plan_(task.generation()) {}

  Status run() {
    task_.add({TaskEvent::Kind::started});
    conversations().use_adapter(plan_.adapter);
    for (std::size_t prompt = 0; prompt < plan_.prompts.size(); ++prompt) {
      usage_.prompt_tokens += plan_.prompts[prompt].size();
      for (std::size_t number = 0; number < plan_.choices; ++number) {
        choice_ = prompt * plan_.choices + number;
        SLUICE_TRY(answer(plan_.prompts[prompt], number));
      }
    }
    TaskEvent done = {TaskEvent::Kind::done};
    done.usage = usage_;
    place_.metrics.count_tokens(usage_.prompt_tokens, usage_.cached_tokens,
                                usage_.completion_tokens);
    task_.drop_grammar();
    task_.add(std::move(done));
    return {};
  }

 private:
  Status answer(const std::vector<std::int32_t>& prompt, std::size_t number) {
    AnswerForm form = plan_.form;
    form.call_ids += fmt::format("{}_", choice_);
    SLUICE_ASSIGN(AnswerMachine machine, AnswerMachine::create(place_.tokenizer, std::move(form)));
    const std::optional<KnownAnswer> known = recall_answer(prompt, number);
    if (known && known->finish) return repeat(*known, machine);
    std::span<const float> logits;
    if (!known) {
      SLUICE_ASSIGN(logits, read(prompt, number));
    }
    show_prompt();
    place_.board.begin_decode(choice_);
    last_token_.reset();
    std::vector<text::TokenLogProbability> trail;
    SLUICE_ASSIGN(const engine::Generated generated,
                  write(prompt, number, known, logits, machine, trail));
    end(machine, generated.reason);
    if (conversations().has_disk()) conversations().keep({});
    if (keeps_answers() && plan_.choices * plan_.prompts.size() > 1) {
      std::vector<std::int32_t> ids = prompt;
      ids.insert(ids.end(), generated.ids.begin(), generated.ids.end());
      conversations().checkpoint_end(answer_key(plan_.key, choice_), prompt.size(), std::move(ids),
                                     trail, generated.reason);
    }
    return {};
  }

  /// The tokens of an answer, through `machine` to the client. `trail` becomes what belongs to each
  /// of them, where that must outlive a crash.
  Result<engine::Generated> write(const std::vector<std::int32_t>& prompt, std::size_t number,
                                  const std::optional<KnownAnswer>& known,
                                  std::span<const float> logits, AnswerMachine& machine,
                                  std::vector<text::TokenLogProbability>& trail) {
    engine::GenerateOptions options = generate_options(number);
    options.before = prompt;
    if (known) options.known = known->ids;
    std::optional<text::TokenConstraint> constraint = constraint_of(plan_.grammar);
    if (constraint) options.constraint = &*constraint;
    std::optional<text::TokenLogProbability> log_probability;
    if (plan_.log_probabilities) {
      options.on_choice = [&](std::span<const float> all, std::int32_t id) {
        log_probability = text::log_probability(all, id, *plan_.log_probabilities);
      };
    }
    std::size_t written = 0;
    std::size_t outlives = known ? known->ids.size() : 0;  // a crash
    const auto on_token = [&](std::int32_t id) {
      const bool is_known = known && written < known->ids.size();
      if (is_known && written < known->trail.size()) log_probability = known->trail[written];
      ++written;
      held().push_back(id);
      ++usage_.completion_tokens;
      count_token(is_known);
      if (log_probability && keeps_answers()) trail.push_back(*log_probability);
      const bool wants_more = machine.push(id, std::exchange(log_probability, std::nullopt));
      flush(machine);
      if (wants_more && written >= outlives + kCheckpointTokens && keeps_answers() &&
          conversations().checkpoint(answer_key(plan_.key, choice_), prompt.size(), trail)) {
        outlives = written;
      }
      return wants_more;
    };
    auto generated = engine::go_on(place_.engine, conversations().sequence(), logits, options,
                                   on_token, place_.counts);
    // The last token was not fed; after an error nothing is held.
    held().resize(conversations().sequence().length());
    if (generated && generated->reason == engine::FinishReason::interrupted) {
      return fail(ErrorKind::interrupted, "interrupted");
    }
    return generated;
  }

  engine::GenerateOptions generate_options(std::size_t number) {
    engine::GenerateOptions options;
    options.max_new = plan_.max_new;
    options.sampling = plan_.sampling;
    options.sampling.seed += number;
    options.stop_ids = place_.stop_ids;
    options.feed = feed_options();
    options.drafts = place_.engine.options().drafts;
    return options;
  }

  void end(AnswerMachine& machine, engine::FinishReason reason) {
    usage_.reasoning_tokens += machine.reasoning_tokens();
    TaskEvent end = {TaskEvent::Kind::choice_end, choice_};
    end.finish = machine.finish(reason);
    end.stop_string = machine.stopped_by();
    flush(machine);
    task_.add(std::move(end));
  }

  bool keeps_answers() { return plan_.key != 0 && conversations().has_disk(); }

  /// What a crash left of this answer.
  std::optional<KnownAnswer> recall_answer(const std::vector<std::int32_t>& prompt,
                                           std::size_t number) {
    if (!keeps_answers() || plan_.prompt_log_probabilities) return std::nullopt;
    auto known = conversations().recall_answer(answer_key(plan_.key, choice_), prompt);
    if (!known || (plan_.log_probabilities && known->trail.size() != known->ids.size())) {
      return std::nullopt;
    }
    if (number == 0) usage_.cached_tokens += prompt.size();
    return known;
  }

  /// An answer that had ended before a crash.
  Status repeat(const KnownAnswer& known, AnswerMachine& machine) {
    for (std::size_t i = 0; i < known.ids.size(); ++i) {
      ++usage_.completion_tokens;
      std::optional<text::TokenLogProbability> log_probability;
      if (i < known.trail.size()) log_probability = known.trail[i];
      machine.push(known.ids[i], std::move(log_probability));
    }
    end(machine, *known.finish);
    return {};
  }

  std::optional<text::TokenConstraint> constraint_of(const text::AnswerGrammar& grammar) {
    if (!grammar.grammar) return std::nullopt;
    std::vector<std::int32_t> end_ids = place_.stop_ids;
    end_ids.insert(end_ids.end(), grammar.end_ids.begin(), grammar.end_ids.end());
    return text::TokenConstraint(grammar.grammar, place_.token_index(), end_ids);
  }

  /// Gives the client what the model held of the tokens of the prompt's text, if it was asked for.
  void show_prompt() {
    if (!plan_.prompt_log_probabilities) return;
    const std::size_t prompt = choice_ / plan_.choices;
    const std::size_t prefix = prompt < plan_.prefixes.size() ? plan_.prefixes[prompt] : 0;
    for (auto rest = std::span(prompt_).subspan(prefix); !rest.empty();) {
      const auto part = rest.first(std::min(rest.size(), kToldAtOnce));
      TaskEvent event = {TaskEvent::Kind::step, choice_};
      event.step.log_probabilities.assign(part.begin(), part.end());
      task_.add(std::move(event));
      rest = rest.subspan(part.size());
    }
  }

  /// Reads a prompt one token after another, since only the last of a pass has logits. (The bits
  /// are the same.)
  Result<std::span<const float>> read_watching(const std::vector<std::int32_t>& prompt) {
    prompt_.assign(1, {prompt[0], text::kNoLogProbability});
    conversations().begin_anew();
    place_.board.begin_prefill(choice_, prompt.size());
    const auto start = Clock::now();
    std::span<const float> logits;
    for (std::size_t i = 0; i < prompt.size(); ++i) {
      model::SequenceState& sequence = conversations().sequence();
      const auto fed = place_.engine.feed(sequence, {&prompt[i], 1}, feed_options());
      if (!fed) held().resize(sequence.length());
      SLUICE_ASSIGN(logits, fed);
      held().push_back(prompt[i]);
      if (i + 1 == prompt.size()) break;
      prompt_.push_back(text::log_probability(logits, prompt[i + 1], *plan_.log_probabilities));
    }
    place_.counts.prompt_tokens += prompt.size();
    place_.counts.prefill_s += seconds_since(start);
    conversations().keep(logits);
    return logits;
  }

  /// Makes the sequence hold the prompt, from the longest part of it that is known. Returns the
  /// logits of its last position.
  Result<std::span<const float>> read(const std::vector<std::int32_t>& prompt, std::size_t number) {
    if (plan_.prompt_log_probabilities && number == 0) return read_watching(prompt);
    SLUICE_ASSIGN(const auto known, conversations().recall(prompt));
    const std::size_t known_ids = held().size();
    if (number == 0) usage_.cached_tokens += known_ids;
    if (known_ids == prompt.size()) return known;
    const auto rest = std::span(prompt).subspan(known_ids);
    place_.board.begin_prefill(choice_, rest.size());
    const auto start = Clock::now();
    engine::FeedOptions options = feed_options();
    options.on_chunk = [&](std::size_t fed) { conversations().keep_part(prompt, known_ids + fed); };
    auto logits = place_.engine.feed(conversations().sequence(), rest, options);
    held() = prompt;
    held().resize(conversations().sequence().length());
    if (!logits) return logits;
    place_.counts.prompt_tokens += rest.size();
    place_.counts.prefill_s += seconds_since(start);
    conversations().keep(*logits);
    return logits;
  }

  Conversations& conversations() { return place_.conversations; }
  std::vector<std::int32_t>& held() { return conversations().held(); }

  engine::FeedOptions feed_options() {
    engine::FeedOptions options;
    options.cancellation = &task_.cancellation();
    options.on_progress = [this](const engine::Progress& now) {
      place_.board.note(now);
      place_.publish();
    };
    return options;
  }

  /// `is_known`: it was written by a run before this one.
  void count_token(bool is_known) {
    const Clock::time_point now = Clock::now();
    if (is_known) return place_.board.count_known_token();
    std::optional<double> seconds;
    if (last_token_) {
      seconds = std::chrono::duration<double>(now - *last_token_).count();
      place_.metrics.observe_next_token(*seconds);
    } else if (usage_.completion_tokens == 1) {
      place_.metrics.observe_first_token(seconds_since(task_.created()));
    }
    last_token_ = now;
    const std::uint64_t accepted = place_.counts.accepted_drafts;
    place_.board.count_token(seconds, std::exchange(accepted_drafts_, accepted) == accepted);
  }

  void flush(AnswerMachine& machine) {
    for (AnswerStep& step : machine.take()) {
      TaskEvent event = {TaskEvent::Kind::step, choice_};
      event.step = std::move(step);
      task_.add(std::move(event));
    }
  }

  const Workplace& place_;
  Task& task_;
  const Generation& plan_;
  Usage usage_;
  std::size_t choice_ = 0;
  std::uint64_t accepted_drafts_ = 0;              // by the engine, when the last token came
  std::vector<text::TokenLogProbability> prompt_;  // of the prompt that was read last
  std::optional<Clock::time_point> last_token_;
};

}  // namespace

Status run_task(const Workplace& place, Task& task) { return TaskRun(place, task).run(); }

}  // namespace sluice::server
