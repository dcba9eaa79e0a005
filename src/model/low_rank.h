// The arithmetic of adapters: what they add to a matrix's product.
#pragma once

#include <cstddef>

#include "base/thread_pool.h"
#include "model/adapter.h"
#include "model/arena.h"

namespace sluice::model {

/// Rows of the pass under way that an adapter changes.
struct AdaptedRows {
  const Adapter* adapter = nullptr;
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Activations between the two matrices of a pair, for as many positions as a pass has.
struct LowRankRoom {
  float* low = nullptr;       ///< [positions, rank]
  float* prepared = nullptr;  ///< the same, prepared
};
/// `rank`: the largest that there is.
LowRankRoom lay_out_low_rank(Arena& arena, std::size_t positions, std::size_t rank);

/// y += scale * B (A x) for `positions` rows. x: [positions, columns], prepared in the order of
/// the pair's a; y: [positions, rows]. All in float32; the bits of a row depend on it and the pair
/// alone.
void add_low_rank(const LowRank& pair, const float* x, std::size_t positions,
                  const LowRankRoom& room, ThreadPool& threads, float* y);

}  // namespace sluice::model
