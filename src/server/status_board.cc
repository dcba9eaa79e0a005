#include "server/status_board.h"

namespace sluice::server {
namespace {

/// From what is behind, for the part of the prompt that is ahead.
std::optional<double> prefill_left(const engine::Progress& now) {
  const double done = static_cast<double>(now.tokens_done) + static_cast<double>(now.chunk_tokens) *
                                                                 static_cast<double>(now.layer) /
                                                                 static_cast<double>(now.layers);
  if (done <= 0) return std::nullopt;
  return now.seconds / done * (static_cast<double>(now.tokens) - done);
}

}  // namespace

double averaged(double before, double now) {
  constexpr double kNewest = 0.2;
  return before > 0 ? (1 - kNewest) * before + kNewest * now : now;
}

void StatusBoard::begin_task(const std::string& id, std::size_t choices, std::size_t max_new) {
  const std::scoped_lock lock(mutex_);
  status_.task = id;
  status_.choices = choices;
  status_.max_new = max_new;
}

void StatusBoard::end_task() {
  const std::scoped_lock lock(mutex_);
  status_.phase = WorkerStatus::Phase::idle;
  status_.task.clear();
  status_.layer = 0;
  status_.left_s.reset();
}

void StatusBoard::begin_prefill(std::size_t choice, std::size_t tokens) {
  const std::scoped_lock lock(mutex_);
  status_.phase = WorkerStatus::Phase::prefill;
  status_.choice = choice;
  status_.prompt_tokens = tokens;
  status_.prompt_done = 0;
  status_.generated = 0;
  status_.left_s.reset();
}

void StatusBoard::begin_decode(std::size_t choice) {
  const std::scoped_lock lock(mutex_);
  status_.phase = WorkerStatus::Phase::decode;
  status_.choice = choice;
  status_.prompt_done = status_.prompt_tokens;
  status_.generated = 0;
  status_.left_s.reset();
}

void StatusBoard::note(const engine::Progress& now) {
  const std::scoped_lock lock(mutex_);
  status_.layer = now.layer;
  status_.layers = now.layers;
  if (status_.phase != WorkerStatus::Phase::prefill) return;
  status_.prompt_done = now.tokens_done;
  status_.left_s = prefill_left(now);
}

void StatusBoard::count_known_token() {
  const std::scoped_lock lock(mutex_);
  ++status_.generated;
}

void StatusBoard::count_token(std::optional<double> seconds, bool took_pass) {
  const std::scoped_lock lock(mutex_);
  ++status_.generated;
  if (seconds) {
    if (took_pass) {
      before_pass_ = status_.seconds_per_token.value_or(0);
      pass_s_ = pass_tokens_ = 0;
    }
    pass_s_ += *seconds;
    status_.seconds_per_token = averaged(before_pass_, pass_s_ / ++pass_tokens_);
  }
  if (status_.seconds_per_token) {
    status_.left_s =
        *status_.seconds_per_token * static_cast<double>(status_.max_new - status_.generated);
  }
}

WorkerStatus StatusBoard::status() const {
  const std::scoped_lock lock(mutex_);
  return status_;
}

}  // namespace sluice::server
