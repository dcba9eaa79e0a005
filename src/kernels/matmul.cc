#include "kernels/matmul.h"

#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "kernels/scalar.h"
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "kernels/weights-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

using scalar::matmul;
using scalar::prepare;

#else

constexpr std::size_t kPositionAlign = 128;  // floats; whole steps of every format on every target

std::size_t padded(std::size_t columns) { return hwy::RoundUpTo(columns, kPositionAlign); }

template <class Format>
void prepare_as(const float* x, std::size_t x_stride, std::size_t columns, std::size_t positions,
                float* prepared) {
  static_assert(kPositionAlign % Format::kColumns == 0);
  for (std::size_t t = 0; t < positions; ++t) {
    const float* from = x + t * x_stride;
    float* to = prepared + t * padded(columns);
    std::size_t first = 0;
    for (; first + Format::kColumns <= columns; first += Format::kColumns) {
      for (std::size_t v = 0; v < Format::kVectors; ++v) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          to[first + v * kLanes + lane] = from[first + Format::column_of(v, lane)];
        }
      }
    }
    std::fill(to + first, to + padded(columns), 0.0f);
    if (first == columns) continue;
    for (std::size_t v = 0; v < Format::kVectors; ++v) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const std::size_t column = first + Format::column_of(v, lane);
        if (column < columns) to[first + v * kLanes + lane] = from[column];
      }
    }
  }
}

// One position: bound by memory, so it goes straight from the weights to the sums.

/// acc += one step of one row. The only place, with tile_sums() below, where the order of a sum's
/// additions is decided; both must do the same.
template <class Format>
HWY_INLINE Floats add_step(const std::uint8_t* codes, const std::uint8_t* scales, const float* x,
                           Floats acc) {
  const FloatTag floats;
  Floats w[Format::kVectors];
  Format::decode(codes, w);
  if constexpr (Format::kScales > 0) {
    Floats sum = hn::Mul(w[0], hn::LoadU(floats, x));
    HWY_UNROLL(8)
    for (std::size_t v = 1; v < Format::kVectors; ++v) {
      sum = hn::MulAdd(w[v], hn::LoadU(floats, x + v * kLanes), sum);
    }
    return hn::MulAdd(Format::scales(scales), sum, acc);
  } else {
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < Format::kVectors; ++v) {
      acc = hn::MulAdd(w[v], hn::LoadU(floats, x + v * kLanes), acc);
    }
    return acc;
  }
}

/// Asks for the weights that come kDistance bytes later in the order in which groups of rows are
/// read. Hardware prefetchers stop at every page and lose half of the bandwidth on rows this short.
template <class Format, std::size_t kRows>
class ReadAhead {
 public:
  explicit ReadAhead(const Matrix<Format>& w)
      : group_bytes_(kRows * w.bytes.stride), steps_(std::max<std::size_t>(w.steps, 1)) {
    constexpr std::size_t kDistance = 8192;
    const std::size_t steps = kDistance / (kRows * Format::kBytes);
    step_ = steps % steps_;
    next_ = reinterpret_cast<std::uintptr_t>(w.bytes.data) + steps / steps_ * group_bytes_;
    stride_ = w.bytes.stride;
  }

  HWY_INLINE void row(std::size_t r) const {
    hwy::Prefetch(
        reinterpret_cast<const std::uint8_t*>(next_ + r * stride_ + step_ * Format::kBytes));
  }

  HWY_INLINE void advance() {
    if (++step_ == steps_) {
      step_ = 0;
      next_ += group_bytes_;
    }
  }

 private:
  std::uintptr_t next_;  // a number: it runs past the end of the matrix
  std::size_t stride_;
  std::size_t group_bytes_;
  std::size_t steps_;
  std::size_t step_;
};

/// y[0 .. kRows) for the rows from `row` on and one position.
template <class Format, std::size_t kRows>
HWY_INLINE void row_sums(const Matrix<Format>& w, std::size_t row, const float* x,
                         ReadAhead<Format, kRows>& ahead, float* y) {
  const FloatTag floats;
  const RowBytes from = w.at(row, 0);
  Floats acc[kRows];
  HWY_UNROLL(8)
  for (std::size_t r = 0; r < kRows; ++r) acc[r] = hn::Zero(floats);
  for (std::size_t s = 0; s < w.steps; ++s) {
    HWY_UNROLL(8)
    for (std::size_t r = 0; r < kRows; ++r) {
      ahead.row(r);
      acc[r] = add_step<Format>(from.data + r * from.stride + s * Format::kBytes,
                                from.scales + r * from.scale_stride + s * Format::kScales,
                                x + s * Format::kColumns, acc[r]);
    }
    ahead.advance();
  }
  if (w.partial_columns > 0) {
    const auto last = w.template partial_step<kRows>(row, kRows);
    HWY_UNROLL(8)
    for (std::size_t r = 0; r < kRows; ++r) {
      acc[r] =
          add_step<Format>(last.codes[r], last.scales[r], x + w.steps * Format::kColumns, acc[r]);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) y[r] = hn::GetLane(hn::SumOfLanes(floats, acc[r]));
}

template <class Format>
void one_position(const Matrix<Format>& w, const float* x, float* y) {
  constexpr std::size_t kRows = Format::kRowsAtOnce;
  std::size_t row = 0;
  ReadAhead<Format, kRows> ahead(w);
  for (; row + kRows <= w.rows; row += kRows) row_sums<Format, kRows>(w, row, x, ahead, y + row);
  ReadAhead<Format, 1> ahead_of_one(w);
  for (; row < w.rows; ++row) row_sums<Format, 1>(w, row, x, ahead_of_one, y + row);
}

// Many positions: bound by arithmetic. A panel of rows is decoded once, a block of columns at a
// time, into a tile that stays in the first-level cache and is used for all positions of a group.

constexpr std::size_t kPanelRows = 16;
constexpr std::size_t kPanelColumns = 256;
constexpr std::size_t kPanelPositions = 32;
constexpr std::size_t kRegisterRows = kRegisters / 8;
constexpr std::size_t kRegisterPositions = 4;

/// Decoded weights and the sums so far: 50 KB on the stack at most.
struct Panel {
  HWY_ALIGN float w[kPanelRows][kPanelColumns];
  HWY_ALIGN float scales[kPanelRows][kPanelColumns / 8];
  HWY_ALIGN float sums[kPanelPositions][kPanelRows][kLanes];
};

/// panel.sums += the first `columns` columns of kRegisterRows rows from `row` on times kPositions
/// positions from `position` on. The same operations in the same order as add_step().
template <class Format, std::size_t kPositions>
HWY_INLINE void tile_sums(Panel& panel, std::size_t columns, std::size_t row, const float* x,
                          std::size_t x_stride, std::size_t position) {
  const FloatTag floats;
  constexpr std::size_t kRows = kRegisterRows;
  constexpr bool kScaled = Format::kScales > 0;
  Floats sum[kRows][kPositions];
  if constexpr (!kScaled) {
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t t = 0; t < kPositions; ++t) {
        sum[r][t] = hn::Load(floats, panel.sums[position + t][row + r]);
      }
    }
  }
  for (std::size_t c = 0; c < columns; c += Format::kColumns) {
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < Format::kVectors; ++v) {
      Floats w[kRows];
      for (std::size_t r = 0; r < kRows; ++r) {
        w[r] = hn::Load(floats, panel.w[row + r] + c + v * kLanes);
      }
      for (std::size_t t = 0; t < kPositions; ++t) {
        const Floats xt = hn::LoadU(floats, x + t * x_stride + c + v * kLanes);
        for (std::size_t r = 0; r < kRows; ++r) {
          sum[r][t] = kScaled && v == 0 ? hn::Mul(w[r], xt) : hn::MulAdd(w[r], xt, sum[r][t]);
        }
      }
    }
    if constexpr (kScaled) {
      for (std::size_t r = 0; r < kRows; ++r) {
        const Floats scale = hn::Load(floats, panel.scales[row + r] + c / 8);
        for (std::size_t t = 0; t < kPositions; ++t) {
          float* total = panel.sums[position + t][row + r];
          hn::Store(hn::MulAdd(scale, sum[r][t], hn::Load(floats, total)), floats, total);
        }
      }
    }
  }
  if constexpr (!kScaled) {
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t t = 0; t < kPositions; ++t) {
        hn::Store(sum[r][t], floats, panel.sums[position + t][row + r]);
      }
    }
  }
}

/// Decodes one step of `rows` rows into the panel at `column`.
template <class Format>
HWY_INLINE void decode_step(const RowBytes& from, std::size_t rows, std::size_t column,
                            Panel& panel) {
  const FloatTag floats;
  for (std::size_t r = 0; r < rows; ++r) {
    Floats w[Format::kVectors];
    Format::decode(from.data + r * from.stride, w);
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < Format::kVectors; ++v) {
      hn::Store(w[v], floats, panel.w[r] + column + v * kLanes);
    }
    if constexpr (Format::kScales > 0) {
      hn::Store(Format::scales(from.scales + r * from.scale_stride), floats,
                panel.scales[r] + column / 8);
    }
  }
}

/// Decodes whole and partial steps [first, last) of `rows` rows into the panel.
template <class Format>
void decode_block(const Matrix<Format>& w, std::size_t row, std::size_t rows, std::size_t first,
                  std::size_t last, Panel& panel) {
  for (std::size_t s = first; s < std::min(last, w.steps); ++s) {
    decode_step<Format>(w.at(row, s), rows, (s - first) * Format::kColumns, panel);
  }
  if (last > w.steps) {
    const auto partial = w.template partial_step<kPanelRows>(row, rows);
    decode_step<Format>(partial.rows(), rows, (w.steps - first) * Format::kColumns, panel);
  }
}

template <class Format>
HWY_INLINE void panel_sums(Panel& panel, std::size_t columns, std::size_t rows, const float* x,
                           std::size_t x_stride, std::size_t positions) {
  for (std::size_t t = 0; t < positions; t += kRegisterPositions) {
    const float* xt = x + t * x_stride;
    for (std::size_t r = 0; r < rows; r += kRegisterRows) {
      switch (std::min(kRegisterPositions, positions - t)) {
        case 1:
          tile_sums<Format, 1>(panel, columns, r, xt, x_stride, t);
          break;
        case 2:
          tile_sums<Format, 2>(panel, columns, r, xt, x_stride, t);
          break;
        case 3:
          tile_sums<Format, 3>(panel, columns, r, xt, x_stride, t);
          break;
        default:
          tile_sums<Format, 4>(panel, columns, r, xt, x_stride, t);
          break;
      }
    }
  }
}

template <class Format>
HWY_NOINLINE void many_positions(const Matrix<Format>& w, const float* x, std::size_t x_stride,
                                 std::size_t positions, float* y, std::size_t y_stride) {
  static_assert(kPanelColumns % Format::kColumns == 0);
  constexpr std::size_t kBlock = kPanelColumns / Format::kColumns;
  const FloatTag floats;
  const std::size_t steps = w.steps + (w.partial_columns > 0 ? 1 : 0);
  Panel panel;
  std::memset(panel.w, 0, sizeof(panel.w));  // rows past the last are computed and not used
  std::memset(panel.scales, 0, sizeof(panel.scales));
  for (std::size_t row = 0; row < w.rows; row += kPanelRows) {
    const std::size_t rows = std::min(kPanelRows, w.rows - row);
    std::memset(panel.sums, 0, sizeof(panel.sums[0]) * positions);
    for (std::size_t s = 0; s < steps; s += kBlock) {
      const std::size_t last = std::min(s + kBlock, steps);
      decode_block<Format>(w, row, rows, s, last, panel);
      panel_sums<Format>(panel, (last - s) * Format::kColumns, rows, x + s * Format::kColumns,
                         x_stride, positions);
    }
    for (std::size_t t = 0; t < positions; ++t) {
      for (std::size_t r = 0; r < rows; ++r) {
        const Floats sum = hn::Load(floats, panel.sums[t][r]);
        y[t * y_stride + row + r] = hn::GetLane(hn::SumOfLanes(floats, sum));
      }
    }
  }
}

template <class Format>
void matmul_as(const Rows& rows, const float* prepared, std::size_t positions, float* y,
               std::size_t y_stride) {
  const Matrix<Format> w(rows);
  const std::size_t x_stride = padded(rows.columns);
  while (positions > 0) {
    const std::size_t group = std::min(positions, kPanelPositions);
    if (group == 1) {
      one_position<Format>(w, prepared, y);
    } else {
      many_positions<Format>(w, prepared, x_stride, group, y, y_stride);
    }
    prepared += group * x_stride;
    y += group * y_stride;
    positions -= group;
  }
}

void prepare(WeightFormat format, const float* x, std::size_t x_stride, std::size_t columns,
             std::size_t positions, float* prepared) {
  switch (format) {
    case WeightFormat::f32:
    case WeightFormat::f16:
      return prepare_as<F32>(x, x_stride, columns, positions, prepared);
    case WeightFormat::bf16:
      return prepare_as<Bf16>(x, x_stride, columns, positions, prepared);
    case WeightFormat::mxfp4:
      return prepare_as<Mxfp4>(x, x_stride, columns, positions, prepared);
  }
}

void matmul(const Rows& w, const float* prepared, std::size_t positions, float* y,
            std::size_t y_stride) {
  switch (w.format) {
    case WeightFormat::f32:
      return matmul_as<F32>(w, prepared, positions, y, y_stride);
    case WeightFormat::f16:
      return matmul_as<F16>(w, prepared, positions, y, y_stride);
    case WeightFormat::bf16:
      return matmul_as<Bf16>(w, prepared, positions, y, y_stride);
    case WeightFormat::mxfp4:
      return matmul_as<Mxfp4>(w, prepared, positions, y, y_stride);
  }
}

#endif
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels {

HWY_EXPORT(prepare);
HWY_EXPORT(matmul);

std::size_t find_bad_scale(const std::byte* scales, std::size_t count) {
  if (count == 0) return 0;
  const void* bad = std::memchr(scales, 0xFF, count);
  return bad == nullptr ? count
                        : static_cast<std::size_t>(static_cast<const std::byte*>(bad) - scales);
}

std::size_t prepared_floats(std::size_t columns, std::size_t positions) {
  return hwy::RoundUpTo(columns, std::size_t{128}) * positions;
}

void prepare(WeightFormat format, const float* x, std::size_t x_stride, std::size_t columns,
             std::size_t positions, float* prepared) {
  HWY_DYNAMIC_DISPATCH(prepare)(format, x, x_stride, columns, positions, prepared);
}

void matmul(const Rows& w, const float* prepared, std::size_t positions, float* y,
            std::size_t y_stride) {
  HWY_DYNAMIC_DISPATCH(matmul)(w, prepared, positions, y, y_stride);
}

}  // namespace sluice::kernels
#endif  // HWY_ONCE
