// The trunk cut into tiles of rows, in the order of use.
#pragma once

#include <cstdint>
#include <vector>

#include "weights/blocks.h"

namespace sluice::weights {

/// Rows of one matrix that are read and computed together.
struct TileSpan {
  MatrixId matrix = 0;
  std::uint32_t first_row = 0;
  std::uint32_t rows = 0;
  io::Extent extent;
};

/// Every pass walks the tiles [0, head_begin) in order, and those from head_begin on when it wants
/// logits; then the next pass starts again at 0.
struct Schedule {
  std::vector<TileSpan> tiles;
  std::size_t head_begin = 0;

  std::uint64_t longest_tile() const;
  std::uint64_t bytes() const;
};

/// How large a schedule would be.
struct ScheduleSize {
  std::size_t tiles = 0;
  std::uint64_t longest_tile = 0;
};

/// Of what make_schedule() would make, without making it.
ScheduleSize schedule_size(const Blocks& blocks, std::uint64_t tile_bytes);

/// Cuts the matrices into tiles of about `tile_bytes`, never less than the rows that a matrix
/// wants together.
Schedule make_schedule(const Blocks& blocks, std::uint64_t tile_bytes);

}  // namespace sluice::weights
