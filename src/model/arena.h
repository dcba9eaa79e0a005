// Where the activations of a pass lie: one buffer, laid out by the same code that measures it.
#pragma once

#include <algorithm>
#include <cstddef>

namespace sluice::model {

/// Hands out consecutive pieces of a buffer of floats, each 64-byte aligned. Over a null buffer it
/// only measures: the planner and the pass use the same layout functions.
class Arena {
 public:
  explicit Arena(float* base) : base_(base) {}

  float* take(std::size_t floats) {
    float* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (floats + kAlign - 1) / kAlign * kAlign;
    most_ = std::max(most_, used_);
    return piece;
  }

  /// Pieces taken after mark() are given up by back_to(mark).
  std::size_t mark() const { return used_; }
  void back_to(std::size_t mark) { used_ = mark; }

  /// The most floats that were in use at once.
  std::size_t most() const { return most_; }

 private:
  static constexpr std::size_t kAlign = 16;
  float* base_;
  std::size_t used_ = 0;
  std::size_t most_ = 0;
};

}  // namespace sluice::model
