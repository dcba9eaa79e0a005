#include "model/low_rank.h"

#include <algorithm>
#include <array>

#include "kernels/ops.h"
#include "model/executor.h"

namespace sluice::model {
namespace {

// What a thread computes of the second product before it adds it: small enough for its stack. That
// the pieces are the same whatever the number of threads keeps the bits of the sums the same.
constexpr std::size_t kRows = 256;
constexpr std::size_t kPositions = 8;

std::size_t pieces(std::size_t n, std::size_t each) { return (n + each - 1) / each; }

/// room.low = A x
void project(const LowRank& pair, const float* x, std::size_t positions, const LowRankRoom& room,
             ThreadPool& threads) {
  const std::size_t rank = pair.a.rows;
  const std::size_t step = rows_per_item(pair.a.format, pair.a.columns);
  const std::size_t items = pieces(rank, step);
  threads.run(items * pieces(positions, kPositions), [&](std::size_t item, int) {
    const std::size_t row = item % items * step;
    const std::size_t first = item / items * kPositions;
    const kernels::Rows rows = kernels::slice(pair.a, row, std::min(step, rank - row));
    kernels::matmul(rows, x + kernels::prepared_floats(pair.a.columns, first),
                    std::min(kPositions, positions - first), room.low + first * rank + row, rank);
  });
}

/// y += scale * B low, for one piece of B and some positions.
void add_piece(const LowRank& pair, const kernels::Rows& rows, const float* low,
               std::size_t positions, float* y) {
  std::array<float, kRows * kPositions> product;
  kernels::matmul(rows, low, positions, product.data(), rows.rows);
  for (std::size_t t = 0; t < positions; ++t) {
    kernels::add_scaled(pair.scale, product.data() + t * rows.rows, rows.rows, y + t * pair.b.rows);
  }
}

}  // namespace

LowRankRoom lay_out_low_rank(Arena& arena, std::size_t positions, std::size_t rank) {
  LowRankRoom room;
  room.low = arena.take(positions * rank);
  room.prepared = arena.take(kernels::prepared_floats(rank, positions));
  return room;
}

void add_low_rank(const LowRank& pair, const float* x, std::size_t positions,
                  const LowRankRoom& room, ThreadPool& threads, float* y) {
  const std::size_t rank = pair.a.rows;
  project(pair, x, positions, room, threads);
  kernels::prepare(pair.b.format, room.low, rank, rank, positions, room.prepared);
  const std::size_t items = pieces(pair.b.rows, kRows);
  threads.run(items * pieces(positions, kPositions), [&](std::size_t item, int) {
    const std::size_t row = item % items * kRows;
    const std::size_t first = item / items * kPositions;
    const kernels::Rows rows = kernels::slice(pair.b, row, std::min(kRows, pair.b.rows - row));
    add_piece(pair, rows, room.prepared + kernels::prepared_floats(rank, first),
              std::min(kPositions, positions - first), y + first * pair.b.rows + row);
  });
}

}  // namespace sluice::model
