#include "model/executor.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/check.h"
#include "base/clock.h"
#include "kernels/ops.h"

namespace sluice::model {
namespace {

// Weight bytes per piece of work: large against the cost of handing it out, small enough that the
// threads finish together.
constexpr std::size_t kItemBytes = std::size_t{128} << 10;

// Kernels take rows in blocks; pieces that are whole blocks keep them full.
constexpr std::size_t kRowBlock = 16;

// Shorter waits are not worth a line of a trace.
constexpr double kShownWait = 20e-6;

}  // namespace

std::size_t rows_per_item(kernels::WeightFormat format, std::size_t columns) {
  const std::size_t rows = kItemBytes / std::max<std::size_t>(1, bytes_per_row(format, columns));
  return std::max(kRowBlock, rows / kRowBlock * kRowBlock);
}

const float* Input::prepared_for(kernels::WeightFormat format) {
  if (!format_ || !kernels::same_order(*format_, format)) {
    kernels::prepare(format, x_, columns_, columns_, positions_, room_);
    format_ = format;
  }
  return room_;
}

Status Executor::check_cancelled() const {
  if (cancellation_ != nullptr && cancellation_->requested()) {
    return fail(ErrorKind::interrupted, "interrupted");
  }
  return {};
}

Result<std::span<const weights::Tile>> Executor::take(const Matrix& matrix) {
  const auto begin = Clock::now();
  auto tiles = trunk_.take(matrix.id);
  if (trace_ != nullptr && seconds_since(begin) > kShownWait) {
    trace_->span("wait", trunk_.name(matrix.id), layer_, begin, Clock::now());
  }
  return tiles;
}

Result<weights::ReadyExpert> Executor::next_expert() {
  const auto begin = Clock::now();
  auto expert = experts_.next();
  if (trace_ != nullptr && seconds_since(begin) > kShownWait) {
    trace_->span("wait", "expert", layer_, begin, Clock::now());
  }
  return expert;
}

kernels::Rows Executor::rows_of(const Matrix& matrix, const weights::Tile& tile) const {
  const float* const scales = matrix.scales ? vectors_[*matrix.scales] : nullptr;
  return {matrix.format, tile.data,      reinterpret_cast<const std::byte*>(scales),
          tile.rows,     matrix.columns, tile.first_row};
}

/// Tiles of one matrix that are there together are consecutive rows: one run of items.
bool Executor::multiply_tiles(const Matrix& matrix, std::span<const weights::Tile> tiles,
                              const float* prepared, std::size_t positions, float* y) {
  const std::size_t step = rows_per_item(matrix.format, matrix.columns);
  const std::size_t items_per_tile = (tiles.front().rows + step - 1) / step;
  std::atomic<bool> finite{true};
  threads_.run(tiles.size() * items_per_tile, [&](std::size_t item, int) {
    const weights::Tile& tile = tiles[item / items_per_tile];
    const std::size_t begin = item % items_per_tile * step;
    if (begin >= tile.rows) return;
    const kernels::Rows w = kernels::slice(rows_of(matrix, tile), begin,
                                           std::min<std::size_t>(step, tile.rows - begin));
    float* const out = y + tile.first_row + begin;
    kernels::matmul(w, prepared, positions, out, matrix.rows);
    for (std::size_t i = 0; i < positions; ++i) {
      if (!kernels::all_finite(out + i * matrix.rows, w.rows)) finite = false;
    }
  });
  return finite;
}

Status Executor::bad_product(const Matrix& matrix, std::string_view of) const {
  const std::string place = layer_ == Trace::kNoLayer ? "" : fmt::format("layer {}: ", layer_);
  return fail(ErrorKind::number,
              "{}what {} {} makes of its input is not finite; the weights are damaged, or not what "
              "the configuration says: check the file, or download its shard again",
              place, of, trunk_.name(matrix.id));
}

bool Executor::multiply_early(const Matrix& matrix, Input& x, float* y) {
  const std::span<const weights::Tile> tiles = trunk_.peek(matrix.id);
  if (tiles.empty()) return false;
  return multiply_tiles(matrix, tiles, x.prepared_for(matrix.format), x.positions(), y);
}

Status Executor::multiply(const Matrix& matrix, Input& x, float* y) {
  SLUICE_CHECK(x.columns() == matrix.columns);
  const TraceSpan traced = span("matrix", trunk_.name(matrix.id));
  const float* prepared = x.prepared_for(matrix.format);
  std::size_t done = 0;
  while (done < matrix.rows) {
    SLUICE_TRY(check_cancelled());
    SLUICE_ASSIGN(const std::span<const weights::Tile> tiles, take(matrix));
    if (!multiply_tiles(matrix, tiles, prepared, x.positions(), y)) {
      return bad_product(matrix, "tensor");
    }
    done += tiles.back().first_row + tiles.back().rows - tiles.front().first_row;
    trunk_.release();
  }
  if (adapted_.empty()) return {};
  add_adapters(matrix, x, y);
  if (kernels::all_finite(y, x.positions() * matrix.rows)) return {};
  return bad_product(matrix, "an adapter of tensor");
}

/// Matrices with adapters are multiplied with all rows of the pass.
void Executor::add_adapters(const Matrix& matrix, Input& x, float* y) {
  for (const AdaptedRows& rows : adapted_) {
    const std::optional<LowRank> pair = rows.adapter->pair_of(matrix.id);
    if (!pair) continue;
    SLUICE_CHECK(rows.first + rows.count <= x.positions());
    const float* const prepared = x.prepared_for(pair->a.format);
    add_low_rank(*pair, prepared + kernels::prepared_floats(matrix.columns, rows.first), rows.count,
                 low_rank_, threads_, y + rows.first * matrix.rows);
  }
}

Status Executor::for_each_tile(const Matrix& matrix,
                               FunctionRef<void(const weights::Tile& tile)> visit) {
  const TraceSpan traced = span("matrix", trunk_.name(matrix.id));
  std::size_t done = 0;
  while (done < matrix.rows) {
    SLUICE_TRY(check_cancelled());
    SLUICE_ASSIGN(const std::span<const weights::Tile> tiles, take(matrix));
    for (const weights::Tile& tile : tiles) {
      visit(tile);
      done += tile.rows;
    }
    trunk_.release();
  }
  return {};
}

void Executor::parallel_ranges(std::size_t n, std::size_t grain,
                               FunctionRef<void(std::size_t first, std::size_t count)> work) {
  const std::size_t most = static_cast<std::size_t>(threads_.threads()) * 4;
  const std::size_t step = std::max(grain, (n + most - 1) / most);
  threads_.run((n + step - 1) / step, [&](std::size_t item, int) {
    const std::size_t first = item * step;
    work(first, std::min(step, n - first));
  });
}

}  // namespace sluice::model
