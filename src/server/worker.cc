#include "server/worker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/generate.h"

namespace sluice::server {
namespace {

// Passes were made for a main thread's stack; this is many times what one takes.
constexpr std::size_t kStackBytes = std::size_t{1} << 20;

// How much a new measurement counts in a running average.
constexpr double kNewest = 0.2;
// A long answer can be continued from here after a crash.
constexpr std::size_t kCheckpointTokens = 64;
constexpr double kPublishEvery_s = 0.5;

double averaged(double before, double now) {
  return before > 0 ? (1 - kNewest) * before + kNewest * now : now;
}

}  // namespace

/// One task, from its prompts to its answers.
class Worker::Run {
 public:
  Run(Worker& worker, Task& task) : worker_(worker), task_(task), plan_(task.generation()) {}

  Status run() {
    task_.add({TaskEvent::Kind::started});
    for (std::size_t prompt = 0; prompt < plan_.prompts.size(); ++prompt) {
      usage_.prompt_tokens += plan_.prompts[prompt].size();
      for (std::size_t number = 0; number < plan_.choices; ++number) {
        choice_ = prompt * plan_.choices + number;
        SLUICE_TRY(answer(plan_.prompts[prompt], number));
      }
    }
    TaskEvent done = {TaskEvent::Kind::done};
    done.usage = usage_;
    worker_.metrics_.count_tokens(usage_.prompt_tokens, usage_.cached_tokens,
                                  usage_.completion_tokens);
    task_.add(std::move(done));
    return {};
  }

 private:
  Status answer(const std::vector<std::int32_t>& prompt, std::size_t number) {
    AnswerForm form = plan_.form;
    form.call_ids += fmt::format("{}_", choice_);
    SLUICE_ASSIGN(AnswerMachine machine,
                  AnswerMachine::create(worker_.tokenizer_, std::move(form)));
    engine::GenerateOptions options;
    options.max_new = plan_.max_new;
    options.sampling = plan_.sampling;
    options.sampling.seed += number;
    options.stop_ids = worker_.options_.stop_ids;
    options.feed = feed_options();
    std::optional<text::TokenConstraint> constraint = constraint_of(plan_.grammar);
    if (constraint) options.constraint = &*constraint;
    std::optional<text::TokenLogProbability> log_probability;
    if (plan_.log_probabilities) {
      options.on_choice = [&](std::span<const float> logits, std::int32_t id) {
        log_probability = text::log_probability(logits, id, *plan_.log_probabilities);
      };
    }
    const std::optional<KnownAnswer> known = recall_answer(prompt, number);
    if (known && known->finish) return repeat(*known, machine);
    std::span<const float> logits;
    if (known) {
      options.known = known->ids;
    } else {
      SLUICE_ASSIGN(logits, read(prompt, number));
    }
    show_prompt();
    begin_decode();
    std::vector<text::TokenLogProbability> trail;
    std::size_t written = 0;
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
      if (wants_more && !is_known && written % kCheckpointTokens == 0 && keeps_answers()) {
        conversations().checkpoint(answer_key(plan_.key, choice_), prompt.size(), trail);
      }
      return wants_more;
    };
    auto generated = engine::go_on(worker_.engine_, conversations().sequence(), logits, options,
                                   on_token, worker_.counts_);
    // The last token was not fed; after an error nothing is held.
    held().resize(conversations().sequence().length());
    if (!generated) return tl::unexpected(std::move(generated).error());
    if (generated->reason == engine::FinishReason::interrupted) {
      return fail(ErrorKind::interrupted, "interrupted");
    }
    end(machine, generated->reason);
    if (conversations().has_disk()) conversations().keep({});
    if (keeps_answers() && plan_.choices * plan_.prompts.size() > 1) {
      std::vector<std::int32_t> ids = prompt;
      ids.insert(ids.end(), generated->ids.begin(), generated->ids.end());
      conversations().checkpoint_end(answer_key(plan_.key, choice_), prompt.size(), std::move(ids),
                                     trail, generated->reason);
    }
    return {};
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
    std::vector<std::int32_t> end_ids = worker_.options_.stop_ids;
    end_ids.insert(end_ids.end(), grammar.end_ids.begin(), grammar.end_ids.end());
    return text::TokenConstraint(grammar.grammar, worker_.token_index(), end_ids);
  }

  /// Gives the client what the model held of the prompt's tokens, if it was asked for.
  void show_prompt() {
    if (!plan_.prompt_log_probabilities) return;
    TaskEvent event = {TaskEvent::Kind::step, choice_};
    event.step.log_probabilities = prompt_;
    task_.add(std::move(event));
  }

  /// Reads a prompt one token after another, since only the last of a pass has logits. (The bits
  /// are the same.)
  Result<std::span<const float>> read_watching(const std::vector<std::int32_t>& prompt) {
    prompt_.assign(1, {prompt[0], text::kNoLogProbability});
    conversations().begin_anew();
    begin_prefill(prompt.size());
    const auto start = Clock::now();
    std::span<const float> logits;
    for (std::size_t i = 0; i < prompt.size(); ++i) {
      model::SequenceState& sequence = conversations().sequence();
      const auto fed = worker_.engine_.feed(sequence, {&prompt[i], 1}, feed_options());
      if (!fed) held().resize(sequence.length());
      SLUICE_ASSIGN(logits, fed);
      held().push_back(prompt[i]);
      if (i + 1 == prompt.size()) break;
      prompt_.push_back(text::log_probability(logits, prompt[i + 1], *plan_.log_probabilities));
    }
    worker_.counts_.prompt_tokens += prompt.size();
    worker_.counts_.prefill_s += seconds_since(start);
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
    begin_prefill(rest.size());
    const auto start = Clock::now();
    const auto logits = worker_.engine_.feed(conversations().sequence(), rest, feed_options());
    held() = prompt;
    held().resize(conversations().sequence().length());
    if (!logits) return logits;
    worker_.counts_.prompt_tokens += rest.size();
    worker_.counts_.prefill_s += seconds_since(start);
    conversations().keep(*logits);
    return logits;
  }

  Conversations& conversations() { return *worker_.conversations_; }
  std::vector<std::int32_t>& held() { return conversations().held(); }

  engine::FeedOptions feed_options() {
    engine::FeedOptions options;
    options.cancellation = &task_.cancellation();
    options.on_progress = [this](const engine::Progress& now) {
      {
        const std::scoped_lock lock(worker_.mutex_);
        WorkerStatus& status = worker_.status_;
        status.layer = now.layer;
        status.layers = now.layers;
        if (status.phase == WorkerStatus::Phase::prefill) {
          status.prompt_done = now.tokens_done;
          status.left_s = prefill_left(now);
        }
      }
      worker_.publish();
    };
    return options;
  }

  /// From what is behind, for the part of the prompt that is ahead.
  static std::optional<double> prefill_left(const engine::Progress& now) {
    const double done = static_cast<double>(now.tokens_done) +
                        static_cast<double>(now.chunk_tokens) * static_cast<double>(now.layer) /
                            static_cast<double>(now.layers);
    if (done <= 0) return std::nullopt;
    return now.seconds / done * (static_cast<double>(now.tokens) - done);
  }

  void begin_prefill(std::size_t tokens) {
    const std::scoped_lock lock(worker_.mutex_);
    WorkerStatus& status = worker_.status_;
    status.phase = WorkerStatus::Phase::prefill;
    status.choice = choice_;
    status.prompt_tokens = tokens;
    status.prompt_done = 0;
    status.generated = 0;
    status.left_s.reset();
  }

  void begin_decode() {
    const std::scoped_lock lock(worker_.mutex_);
    WorkerStatus& status = worker_.status_;
    status.phase = WorkerStatus::Phase::decode;
    status.choice = choice_;
    status.prompt_done = status.prompt_tokens;
    status.generated = 0;
    status.left_s.reset();
    last_token_.reset();
  }

  /// `is_known`: it was written by a run before this one.
  void count_token(bool is_known) {
    const Clock::time_point now = Clock::now();
    const std::scoped_lock lock(worker_.mutex_);
    WorkerStatus& status = worker_.status_;
    ++status.generated;
    if (is_known) return;
    if (last_token_) {
      const double seconds = std::chrono::duration<double>(now - *last_token_).count();
      status.seconds_per_token = averaged(status.seconds_per_token.value_or(0), seconds);
      worker_.metrics_.observe_next_token(seconds);
    } else if (usage_.completion_tokens == 1) {
      worker_.metrics_.observe_first_token(seconds_since(task_.created()));
    }
    last_token_ = now;
    if (status.seconds_per_token) {
      status.left_s =
          *status.seconds_per_token * static_cast<double>(plan_.max_new - status.generated);
    }
  }

  void flush(AnswerMachine& machine) {
    for (AnswerStep& step : machine.take()) {
      TaskEvent event = {TaskEvent::Kind::step, choice_};
      event.step = std::move(step);
      task_.add(std::move(event));
    }
  }

  Worker& worker_;
  Task& task_;
  const Generation& plan_;
  Usage usage_;
  std::size_t choice_ = 0;
  std::vector<text::TokenLogProbability> prompt_;  // of the prompt that was read last
  std::optional<Clock::time_point> last_token_;
};

std::uint64_t Worker::memory_bytes() { return kStackBytes; }

Worker::Worker(engine::Engine& engine, const text::Tokenizer& tokenizer, Metrics& metrics,
               WorkerOptions options)
    : engine_(engine),
      tokenizer_(tokenizer),
      metrics_(metrics),
      options_(std::move(options)),
      queue_(options_.queue) {}

Result<std::unique_ptr<Worker>> Worker::start(engine::Engine& engine,
                                              const text::Tokenizer& tokenizer, Metrics& metrics,
                                              WorkerOptions options) {
  SLUICE_CHECK(engine.activity() != nullptr);
  std::unique_ptr<Worker> worker(new Worker(engine, tokenizer, metrics, std::move(options)));
  SLUICE_ASSIGN(worker->conversations_,
                Conversations::open(engine, worker->options_.conversations));
  worker->status_.layers = engine.shape().layers;
  worker->publish();
  Worker* const self = worker.get();
  SLUICE_ASSIGN(Thread thread, Thread::start(kStackBytes, [self] { self->work(); }));
  worker->thread_.emplace(std::move(thread));
  return worker;
}

Worker::~Worker() { stop(); }

void Worker::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    if (running_) running_->cancellation().request();
  }
  arrived_.notify_all();
  thread_.reset();  // joins
  const std::scoped_lock lock(mutex_);
  while (const auto task = queue_.pop()) {
    TaskEvent event = {TaskEvent::Kind::failed};
    event.error = Error{ErrorKind::interrupted, "the server is shutting down"};
    (*task)->add(std::move(event));
  }
}

bool Worker::submit(const std::shared_ptr<Task>& task) {
  {
    const std::scoped_lock lock(mutex_);
    if (stop_ || !queue_.push(task->client(), task)) return false;
  }
  arrived_.notify_one();
  return true;
}

void Worker::cancel(const std::shared_ptr<Task>& task) {
  task->cancellation().request();
  const std::scoped_lock lock(mutex_);
  queue_.remove(task);
}

void Worker::forget(const Task& task) {
  const Generation& plan = task.generation();
  if (plan.key == 0) return;
  for (std::size_t choice = 0; choice < plan.choices * plan.prompts.size(); ++choice) {
    conversations_->forget(answer_key(plan.key, choice));
  }
}

std::optional<Worker::Turn> Worker::turn(const std::shared_ptr<Task>& task) const {
  const std::scoped_lock lock(mutex_);
  if (running_ == task) return Turn{0, 0.0};
  const auto queued_before = queue_.position(task);
  if (!queued_before) return std::nullopt;
  Turn turn = {*queued_before + (running_ ? 1 : 0), std::nullopt};
  if (task_seconds_ <= 0) return turn;
  turn.seconds = static_cast<double>(*queued_before) * task_seconds_;
  if (running_) {
    // What is left at most is far more than most answers take.
    const double usual = std::max(0.0, task_seconds_ - seconds_since(started_));
    *turn.seconds += std::min(status_.left_s.value_or(usual), usual);
  }
  return turn;
}

WorkerStatus Worker::status() const {
  const std::scoped_lock lock(mutex_);
  WorkerStatus status = status_;
  status.running_s = running_ ? seconds_since(started_) : 0;
  status.queued = queue_.size();
  status.queue_limit = queue_.limit();
  return status;
}

MetricsSnapshot Worker::snapshot() const {
  engine::LiveStatistics live = engine_.live();
  const std::scoped_lock lock(mutex_);
  MetricsSnapshot now = published_;
  now.live = std::move(live);
  now.queued = queue_.size();
  now.queue_limit = queue_.limit();
  now.running = running_ != nullptr;
  return now;
}

std::size_t Worker::retry_after() const {
  const std::scoped_lock lock(mutex_);
  const double left = status_.left_s.value_or(task_seconds_);
  return static_cast<std::size_t>(std::clamp(std::ceil(left), 1.0, 86'400.0));
}

/// Makes the engine's statistics known to other threads, which may not ask the engine itself.
void Worker::publish() {
  if (published_at_ != Clock::time_point() && seconds_since(published_at_) < kPublishEvery_s)
    return;
  MetricsSnapshot now;
  now.engine = engine_.statistics(counts_);
  now.saved_states = conversations_->count();
  now.saved_state_bytes = conversations_->bytes();
  now.saved_on_disk_bytes = conversations_->disk_bytes();
  published_at_ = Clock::now();
  const std::scoped_lock lock(mutex_);
  published_ = std::move(now);
}

const text::TokenIndex& Worker::token_index() {
  if (!token_index_) token_index_.emplace(tokenizer_);
  return *token_index_;
}

void Worker::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    arrived_.wait(lock, [&] { return stop_ || queue_.size() > 0; });
    if (stop_) return;
    running_ = *queue_.pop();
    started_ = Clock::now();
    status_.task = running_->id();
    status_.choices = running_->generation().choices * running_->generation().prompts.size();
    status_.max_new = running_->generation().max_new;
    const std::shared_ptr<Task> task = running_;
    lock.unlock();
    const Status status = run(task);
    published_at_ = {};
    publish();
    lock.lock();
    if (status) task_seconds_ = averaged(task_seconds_, seconds_since(started_));
    running_.reset();
    status_.phase = WorkerStatus::Phase::idle;
    status_.task.clear();
    status_.layer = 0;
    status_.left_s.reset();
  }
}

Status Worker::run(const std::shared_ptr<Task>& task) {
  Status status = Run(*this, *task).run();
  if (!status) {
    TaskEvent event = {TaskEvent::Kind::failed};
    event.error = status.error();
    task->add(std::move(event));
  }
  return status;
}

}  // namespace sluice::server
