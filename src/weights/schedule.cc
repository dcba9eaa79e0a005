#include "weights/schedule.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::weights {
namespace {

/// Rows of a tile, at the matrix's end fewer.
std::uint64_t rows_of_tile(const MatrixBlock& matrix, std::uint64_t tile_bytes) {
  SLUICE_CHECK(matrix.rows > 0 && matrix.rows_together > 0);
  const std::uint64_t group_bytes = matrix.row_bytes() * matrix.rows_together;
  const std::uint64_t groups = std::max<std::uint64_t>(1, tile_bytes / group_bytes);
  return std::min(groups * matrix.rows_together, matrix.rows);
}

void cut(const MatrixBlock& matrix, MatrixId id, std::uint64_t tile_bytes,
         std::vector<TileSpan>& tiles) {
  const std::uint64_t step = rows_of_tile(matrix, tile_bytes);
  for (std::uint64_t row = 0; row < matrix.rows; row += step) {
    const std::uint64_t rows = std::min(step, matrix.rows - row);
    tiles.push_back({id,
                     static_cast<std::uint32_t>(row),
                     static_cast<std::uint32_t>(rows),
                     {matrix.extent.file, matrix.extent.offset + row * matrix.row_bytes(),
                      rows * matrix.row_bytes()}});
  }
}

}  // namespace

std::uint64_t Schedule::longest_tile() const {
  std::uint64_t longest = 0;
  for (const TileSpan& tile : tiles) longest = std::max(longest, tile.extent.length);
  return longest;
}

std::uint64_t Schedule::bytes() const {
  std::uint64_t sum = 0;
  for (const TileSpan& tile : tiles) sum += tile.extent.length;
  return sum;
}

ScheduleSize schedule_size(const Blocks& blocks, std::uint64_t tile_bytes) {
  ScheduleSize size;
  for (const MatrixBlock& matrix : blocks.matrices) {
    const std::uint64_t step = rows_of_tile(matrix, tile_bytes);
    size.tiles += static_cast<std::size_t>((matrix.rows + step - 1) / step);
    size.longest_tile = std::max(size.longest_tile, step * matrix.row_bytes());
  }
  return size;
}

Schedule make_schedule(const Blocks& blocks, std::uint64_t tile_bytes) {
  Schedule schedule;
  // What is charged for the table is its size: it must not have grown beyond that by doubling.
  schedule.tiles.reserve(schedule_size(blocks, tile_bytes).tiles);
  for (MatrixId id = 0; id < blocks.matrices.size(); ++id) {
    if (id == blocks.first_head_matrix) schedule.head_begin = schedule.tiles.size();
    cut(blocks.matrices[id], id, tile_bytes, schedule.tiles);
  }
  return schedule;
}

}  // namespace sluice::weights
