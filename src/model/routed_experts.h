// The routed experts of one layer: computed as they come from the drives, summed in the order of
// their ids.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/executor.h"
#include "model/moe.h"

namespace sluice::model {

/// Which rows want which expert: the picks of a pass, grouped by expert in order of id.
class Picks {
 public:
  /// ids: [positions, k]. room: for [positions * k].
  Picks(const std::int32_t* ids, std::size_t positions, const kernels::Router& router, Pick* room)
      : first_(router.experts + 1, 0), picks_(room, positions * router.top_k) {
    const std::size_t top_k = router.top_k;
    for (std::size_t i = 0; i < positions * top_k; ++i) ++first_[index(ids[i]) + 1];
    for (std::size_t e = 0; e < router.experts; ++e) {
      if (first_[e + 1] > 0) wanted_.push_back(static_cast<std::int32_t>(e));
      first_[e + 1] += first_[e];
    }
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (std::uint32_t row = 0; row < positions; ++row) {
      for (std::uint32_t slot = 0; slot < top_k; ++slot) {
        picks_[next[index(ids[row * top_k + slot])]++] = {row, slot};
      }
    }
  }

  /// Distinct experts, ascending.
  std::span<const std::int32_t> wanted() const { return wanted_; }
  /// The rows that want this expert.
  std::span<const Pick> of(std::int32_t expert) const {
    const std::size_t e = index(expert);
    return picks_.subspan(first_[e], first_[e + 1] - first_[e]);
  }
  /// Where the expert's contributions begin, in rows of width W: contributions lie in the order
  /// of expert ids.
  std::size_t first(std::int32_t expert) const { return first_[index(expert)]; }
  std::span<const Pick> all() const { return picks_; }

 private:
  static std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }
  std::vector<std::size_t> first_;
  std::span<Pick> picks_;
  std::vector<std::int32_t> wanted_;
};

/// Computes all wanted experts for rows z [positions, width], each one's contributions into its own
/// place of the scratch room.
Status run_routed_experts(const MoeWeights& weights, const MoeConfig& config,
                          const kernels::Glu& glu, Executor& executor, const MoeScratch& scratch,
                          const Picks& picks, std::size_t width, const float* z);

/// Sums the contributions of each row in the order of expert ids, whatever order they came in.
void sum_contributions(const Picks& picks, const MoeConfig& config, const MoeScratch& scratch,
                       std::size_t width, std::size_t positions, float* y);

}  // namespace sluice::model
