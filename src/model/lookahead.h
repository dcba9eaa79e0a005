// Whether it is worth guessing which experts the next layer will pick.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weights/expert_banks.h"

namespace sluice::model {

/// Decides how many experts to guess per layer. A guess that was wrong has cost idle drive time,
/// and a wave slot for a while; where most are wrong, guessing stops and is tried again later.
class Lookahead {
 public:
  /// `most` guesses per layer; 0: never.
  explicit Lookahead(std::size_t most) : most_(most) {}

  /// Experts to guess per layer in the pass under way.
  std::size_t guesses() const { return passes_to_rest_ > 0 ? 0 : most_; }

  /// After a pass, with what the banks counted so far.
  void learn(const weights::ExpertStatistics& now) {
    if (passes_to_rest_ > 0) {
      --passes_to_rest_;
      return;
    }
    const std::uint64_t made = now.guesses - made_;
    if (made < kWindow) return;
    const auto useful = static_cast<double>(now.guesses_used - used_);
    if (useful < kLeastUseful * static_cast<double>(made)) passes_to_rest_ = kRest;
    made_ = now.guesses;
    used_ = now.guesses_used;
  }

  static constexpr std::uint64_t kWindow = 128;  ///< guesses that are judged together
  static constexpr double kLeastUseful = 0.5;    ///< share of them
  static constexpr std::size_t kRest = 256;      ///< passes until it is tried again

 private:
  const std::size_t most_;
  std::size_t passes_to_rest_ = 0;
  std::uint64_t made_ = 0;  // guesses before this window
  std::uint64_t used_ = 0;
};

}  // namespace sluice::model
