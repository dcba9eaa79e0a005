// A request on its way through the queue and the engine, and what comes of it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/result.h"
#include "server/answer_machine.h"
#include "text/answer_grammar.h"
#include "text/sampler.h"

namespace sluice::server {

/// What the engine is to write.
struct Generation {
  std::vector<std::vector<std::int32_t>> prompts;  ///< at least one, none of them empty
  std::size_t choices = 1;                         ///< answers to each prompt
  std::size_t max_new = 0;                         ///< tokens of each answer
  std::uint32_t adapter = 0;                       ///< ServedModel::find()
  text::SamplingOptions sampling;                  ///< choice i of a prompt draws with seed + i
  AnswerForm form;
  std::optional<std::size_t> log_probabilities;  ///< with that many of the likeliest
  bool prompt_log_probabilities = false;         ///< of the prompts' tokens, too
  /// By prompt: how many ids the tokenizer put before its text. Nothing is told of them.
  std::vector<std::size_t> prefixes = {};  ///< empty: of no prompt any
  text::AnswerGrammar grammar = {};
  /// Whoever asks with the same key gets the same answer, so that it can be continued after a
  /// crash; 0: it is drawn anew each time.
  std::uint64_t key = 0;
};

struct Usage {
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;  ///< of the prompts, known from earlier requests
  std::size_t completion_tokens = 0;
  std::size_t reasoning_tokens = 0;  ///< of these
};

/// What happens to a task, in order: started, then for each choice steps and an end, then done; or
/// failed at any time.
struct TaskEvent {
  enum class Kind : std::uint8_t { started, step, choice_end, done, failed };
  Kind kind = Kind::started;
  std::size_t choice = 0;  ///< prompt * choices + number of the answer
  AnswerStep step = {};
  Finish finish = Finish::stop;
  std::string stop_string = {};  ///< before which the choice ended, if it did
  Usage usage = {};              ///< of the whole task, with done
  std::optional<Error> error = {};
};

/// Shared by the client's thread, which takes events, and the engine's, which adds them.
class Task {
 public:
  Task(std::string id, std::string client, Generation generation)
      : id_(std::move(id)), client_(std::move(client)), generation_(std::move(generation)) {}

  const std::string& id() const { return id_; }
  const std::string& client() const { return client_; }
  const Generation& generation() const { return generation_; }
  /// The answers are written: others may have the grammar's room, before anybody hears of the end.
  /// Nobody but the engine's thread looks at the grammar.
  void drop_grammar() { generation_.grammar = {}; }
  Clock::time_point created() const { return created_; }
  Cancellation& cancellation() { return cancellation_; }

  /// What ends a wait for events: any of them, or only the task's end. Who does not show what comes
  /// has no need to be woken for it.
  enum class Wake : std::uint8_t { event, end };

  void add(TaskEvent event) {
    bool wakes = false;
    {
      const std::scoped_lock lock(mutex_);
      has_ended_ = has_ended_ || event.kind == TaskEvent::Kind::done ||
                   event.kind == TaskEvent::Kind::failed;
      wakes = has_ended_ || wake_ == Wake::event;
      events_.push_back(std::move(event));
    }
    if (wakes) arrived_.notify_one();
  }

  /// All that came since the last call, in order; nothing after `patience`.
  std::deque<TaskEvent> take(std::chrono::milliseconds patience, Wake wake) {
    std::unique_lock lock(mutex_);
    wake_ = wake;
    arrived_.wait_for(lock, patience,
                      [&] { return has_ended_ || (wake_ == Wake::event && !events_.empty()); });
    return std::exchange(events_, {});
  }

  /// The next event, or none after `patience`.
  std::optional<TaskEvent> next(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, patience, [&] { return !events_.empty(); })) return std::nullopt;
    TaskEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  const std::string id_;
  const std::string client_;
  Generation generation_;
  const Clock::time_point created_ = Clock::now();
  Cancellation cancellation_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<TaskEvent> events_;
  Wake wake_ = Wake::event;
  bool has_ended_ = false;
};

}  // namespace sluice::server
