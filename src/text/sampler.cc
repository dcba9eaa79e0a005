#include "text/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace sluice::text {
namespace {

// e^x for x <= 0, out of additions and multiplications alone, so that every machine gets the same
// bits (the C library may choose another exp for another processor). Relative error below 1e-15.
double exponential(double x) {
  constexpr double kInverseFactorials[] = {1.0,
                                           1.0,
                                           1.0 / 2,
                                           1.0 / 6,
                                           1.0 / 24,
                                           1.0 / 120,
                                           1.0 / 720,
                                           1.0 / 5040,
                                           1.0 / 40320,
                                           1.0 / 362880,
                                           1.0 / 3628800,
                                           1.0 / 39916800,
                                           1.0 / 479001600,
                                           1.0 / 6227020800};
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kLn2High = 6.93147180369123816490e-01;  // ends in zero bits: k * high is exact
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  if (!(x > -700)) return 0;
  const double k = std::floor(x * kLog2E + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;  // |r| <= ln(2) / 2
  double sum = 0;
  for (int n = 13; n >= 0; --n) sum = sum * r + kInverseFactorials[n];
  return std::ldexp(sum, static_cast<int>(k));
}

}  // namespace

Status validate(const SamplingOptions& options) {
  const auto in = [](float value, float low, float high) { return value >= low && value <= high; };
  if (!std::isfinite(options.temperature) || options.temperature < 0) {
    return fail(ErrorKind::usage, "temperature must be 0 or more, not {}", options.temperature);
  }
  if (options.top_k < 0) {
    return fail(ErrorKind::usage, "top_k must be 0 (all tokens) or more, not {}", options.top_k);
  }
  if (!in(options.top_p, 0, 1)) {
    return fail(ErrorKind::usage, "top_p must be from 0 to 1, not {}", options.top_p);
  }
  if (!in(options.min_p, 0, 1)) {
    return fail(ErrorKind::usage, "min_p must be from 0 to 1, not {}", options.min_p);
  }
  if (!in(options.presence_penalty, -2, 2)) {
    return fail(ErrorKind::usage, "presence_penalty must be from -2 to 2, not {}",
                options.presence_penalty);
  }
  if (!in(options.frequency_penalty, -2, 2)) {
    return fail(ErrorKind::usage, "frequency_penalty must be from -2 to 2, not {}",
                options.frequency_penalty);
  }
  for (const auto& [id, bias] : options.bias) {
    if (id < 0) return fail(ErrorKind::usage, "logit_bias: there is no token {}", id);
    if (!in(bias, -100, 100)) {
      return fail(ErrorKind::usage, "logit_bias must be from -100 to 100, not {}", bias);
    }
  }
  return {};
}

Result<Sampler> Sampler::create(const SamplingOptions& options) {
  SLUICE_TRY(validate(options));
  return Sampler(options);
}

Result<std::int32_t> Sampler::next(std::span<const float> logits, const TokenMask* allowed) {
  if (!changes_logits()) return choose(logits, allowed);
  SLUICE_ASSIGN(const std::int32_t id, choose(changed(logits), allowed));
  ++drawn_[id];
  return id;
}

void Sampler::replay(std::int32_t id) {
  if (!options_.is_greedy()) random_.discard(1);
  if (changes_logits()) ++drawn_[id];
}

bool Sampler::changes_logits() const {
  return !options_.bias.empty() || options_.presence_penalty != 0 ||
         options_.frequency_penalty != 0;
}

std::span<const float> Sampler::changed(std::span<const float> logits) {
  changed_.assign(logits.begin(), logits.end());
  for (const auto& [id, bias] : options_.bias) {
    if (static_cast<std::size_t>(id) < changed_.size()) {
      changed_[static_cast<std::size_t>(id)] += bias;
    }
  }
  for (const auto& [id, count] : drawn_) {
    changed_[static_cast<std::size_t>(id)] -=
        options_.presence_penalty + static_cast<float>(count) * options_.frequency_penalty;
  }
  return changed_;
}

Result<std::int32_t> Sampler::choose(std::span<const float> logits, const TokenMask* allowed) {
  if (logits.empty()) return fail(ErrorKind::usage, "no logits to choose a token from");
  std::size_t best = logits.size();
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (!std::isfinite(logits[id])) {
      return fail(ErrorKind::number, "the logit of token {} is {}; no token can be chosen", id,
                  logits[id]);
    }
    if (allowed != nullptr && !allowed->allows(id)) continue;
    if (best == logits.size() || logits[id] > logits[best]) best = id;
  }
  if (best == logits.size()) return fail(ErrorKind::usage, "no token may come next");
  if (options_.is_greedy()) return static_cast<std::int32_t>(best);
  highest_ = logits[best];
  collect(logits, allowed);
  keep_top_k();
  keep_top_p();
  keep_min_p();
  return draw();
}

void Sampler::collect(std::span<const float> logits, const TokenMask* allowed) {
  candidates_.clear();
  candidates_.reserve(logits.size());
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (allowed != nullptr && !allowed->allows(id)) continue;
    candidates_.push_back({logits[id], static_cast<std::int32_t>(id)});
  }
}

// The probability up to a factor, with temperature: 1 for the highest logit.
double Sampler::weight(const Candidate& candidate) const {
  return exponential((static_cast<double>(candidate.logit) - static_cast<double>(highest_)) /
                     static_cast<double>(options_.temperature));
}

void Sampler::keep_top_k() {
  const auto k = static_cast<std::size_t>(options_.top_k);
  if (k == 0 || k >= candidates_.size()) return;
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(k);
  std::nth_element(candidates_.begin(), end - 1, candidates_.end(), before);
  candidates_.erase(end, candidates_.end());
  std::sort(candidates_.begin(), candidates_.end(), before);  // sums need a fixed order
}

// Takes candidates off a heap, likeliest first, until they have the probability asked for: one at
// least, for a top_p of 0. For the few that are left of a large vocabulary this costs a fraction of
// sorting it.
void Sampler::keep_top_p() {
  if (options_.top_p >= 1) return;
  double total = 0;
  for (const Candidate& candidate : candidates_) total += weight(candidate);
  const auto behind = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit < b.logit : a.id > b.id;
  };
  std::make_heap(candidates_.begin(), candidates_.end(), behind);
  const double wanted = static_cast<double>(options_.top_p) * total;
  double sum = 0;
  auto kept = candidates_.end();
  while (kept != candidates_.begin() && (kept == candidates_.end() || sum < wanted)) {
    std::pop_heap(candidates_.begin(), kept, behind);
    --kept;
    sum += weight(*kept);
  }
  candidates_.erase(candidates_.begin(), kept);
}

void Sampler::keep_min_p() {
  if (options_.min_p <= 0) return;
  const auto least = static_cast<double>(options_.min_p);
  std::erase_if(candidates_, [&](const Candidate& c) { return weight(c) < least; });
}

std::int32_t Sampler::draw() {
  double total = 0;
  for (const Candidate& candidate : candidates_) total += weight(candidate);
  // A multiple of 2^-53 in [0, 1), then of the total.
  const double target = static_cast<double>(random_() >> 11) * 0x1p-53 * total;
  double sum = 0;
  std::int32_t chosen = candidates_.front().id;
  for (const Candidate& candidate : candidates_) {
    const double w = weight(candidate);
    if (w <= 0) continue;
    chosen = candidate.id;  // also if rounding leaves the target above the sum of all
    sum += w;
    if (sum > target) break;
  }
  return chosen;
}

std::uint64_t Sampler::memory_bytes() const {
  return sizeof(*this) + candidates_.capacity() * sizeof(Candidate) +
         changed_.capacity() * sizeof(float);
}

}  // namespace sluice::text
