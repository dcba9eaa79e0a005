// Where the worker is, for whoever asks while it works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "engine/engine.h"

namespace sluice::server {

/// Where the worker is. Times in seconds.
struct WorkerStatus {
  enum class Phase : std::uint8_t { idle, prefill, decode };
  Phase phase = Phase::idle;
  std::string task;  ///< its id; empty when idle
  std::size_t choice = 0;
  std::size_t choices = 0;
  std::size_t layer = 0;
  std::size_t layers = 0;
  std::size_t prompt_tokens = 0;  ///< to be computed: cached ones do not count
  std::size_t prompt_done = 0;    ///< whole chunks
  std::size_t generated = 0;
  std::size_t max_new = 0;
  double running_s = 0;
  std::optional<double> seconds_per_token;  ///< of decoding, lately
  std::optional<double> left_s;             ///< if the answer takes all its tokens
  std::size_t queued = 0;
  std::size_t queue_limit = 0;
};

/// A running average, in which the newest measurement counts a fifth. `before`: 0 if there is none.
double averaged(double before, double now);

/// The worker's thread writes, any may read. What the board does not know (the queue, and how long
/// the task has run) is left as it is in what it returns.
class StatusBoard {
 public:
  explicit StatusBoard(std::size_t layers) { status_.layers = layers; }

  void begin_task(const std::string& id, std::size_t choices, std::size_t max_new);
  void end_task();

  void begin_prefill(std::size_t choice, std::size_t tokens);
  void begin_decode(std::size_t choice);
  /// A layer of a pass is done.
  void note(const engine::Progress& now);
  /// A token that a run before this one had written.
  void count_known_token();
  /// A new token; `seconds`: since the one before, if there was one in this answer. `took_pass`: it
  /// was not computed together with the one before (a draft).
  void count_token(std::optional<double> seconds, bool took_pass);

  WorkerStatus status() const;

 private:
  mutable std::mutex mutex_;
  WorkerStatus status_;
  // Of the last pass, whose tokens tell the pace only together.
  double before_pass_ = 0;  // seconds per token
  double pass_s_ = 0;
  double pass_tokens_ = 0;
};

}  // namespace sluice::server
