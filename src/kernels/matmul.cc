#include "kernels/matmul.h"

#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "kernels/blocks.h"
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
    const std::size_t partial = columns % Format::kColumns;
    const std::size_t whole = columns - partial;
    for (std::size_t first = 0; first < whole; first += Format::kColumns) {
      to_decoded_order<Format>(from + first, Format::kColumns, to + first);
    }
    std::fill(to + whole, to + padded(columns), 0.0f);
    if (partial > 0) to_decoded_order<Format>(from + whole, partial, to + whole);
  }
}

/// acc[t] += one step of one row times position t. The only place where the order of a sum's
/// additions is decided.
template <class Format, std::size_t kPositions>
HWY_INLINE void add_step(const std::uint8_t* codes, const std::uint8_t* scales, const float* x,
                         std::size_t x_stride, Floats* acc) {
  const FloatTag floats;
  constexpr bool kScaled = Format::kScales > 0;
  Floats w[Format::kVectors];
  Format::decode(codes, w);
  Floats scale = hn::Zero(floats);
  if constexpr (kScaled) scale = Format::scales(scales);
  SLUICE_UNROLL(4)
  for (std::size_t t = 0; t < kPositions; ++t) {
    const float* xt = x + t * x_stride;
    Floats sum = kScaled ? hn::Mul(w[0], hn::LoadU(floats, xt))
                         : hn::MulAdd(w[0], hn::LoadU(floats, xt), acc[t]);
    SLUICE_UNROLL(8)
    for (std::size_t v = 1; v < Format::kVectors; ++v) {
      sum = hn::MulAdd(w[v], hn::LoadU(floats, xt + v * kLanes), sum);
    }
    acc[t] = kScaled ? hn::MulAdd(scale, sum, acc[t]) : sum;
  }
}

/// y[t * y_stride + r] for kRows rows from `row` on and kPositions positions.
template <class Format, std::size_t kRows, std::size_t kPositions>
HWY_INLINE void row_sums(const Matrix<Format>& w, std::size_t row, const float* x,
                         std::size_t x_stride, ReadAhead<Format, kRows> ahead, float* y,
                         std::size_t y_stride) {
  const FloatTag floats;
  const RowBytes from = w.at(row, 0);
  Floats acc[kRows][kPositions];
  for (auto& row_acc : acc) {
    for (Floats& sum : row_acc) sum = hn::Zero(floats);
  }
  for (std::size_t s = 0; s < w.steps; ++s) {
    SLUICE_UNROLL(8)
    for (std::size_t r = 0; r < kRows; ++r) {
      ahead.row(r);
      add_step<Format, kPositions>(from.data + r * from.stride + s * Format::kBytes,
                                   from.scales + r * from.scale_stride + s * Format::kScales,
                                   x + s * Format::kColumns, x_stride, acc[r]);
    }
    ahead.advance();
  }
  if (w.partial_columns > 0) {
    const auto last = w.template partial_step<kRows>(row, kRows);
    SLUICE_UNROLL(8)
    for (std::size_t r = 0; r < kRows; ++r) {
      add_step<Format, kPositions>(last.codes[r], last.scales[r], x + w.steps * Format::kColumns,
                                   x_stride, acc[r]);
    }
  }
  for (std::size_t t = 0; t < kPositions; ++t) {
    for (std::size_t r = 0; r < kRows; ++r) {
      y[t * y_stride + r] = hn::GetLane(hn::SumOfLanes(floats, acc[r][t]));
    }
  }
}

/// One position: bound by memory. For the rows [first, last), a multiple of kRows.
template <class Format, std::size_t kRows>
HWY_NOINLINE void one_position(const Matrix<Format>& w, std::size_t first, std::size_t last,
                               const float* x, float* y) {
  ReadAhead<Format, kRows> ahead(w, first);
  for (std::size_t row = first; row < last; row += kRows) {
    row_sums<Format, kRows, 1>(w, row, x, 0, ahead, y + row, 0);
    ahead.next_rows();
  }
}

/// Several positions: bound by arithmetic. The weights of four rows come from memory for the first
/// four positions and from the cache for the others; 16 sums are formed at once.
template <class Format>
HWY_NOINLINE void positions_by_four(const Matrix<Format>& w, std::size_t last, const float* x,
                                    std::size_t x_stride, std::size_t positions, float* y,
                                    std::size_t y_stride) {
  ReadAhead<Format, 4> ahead(w);
  for (std::size_t row = 0; row < last; row += 4) {
    std::size_t t = 0;
    for (; t + 4 <= positions; t += 4) {
      row_sums<Format, 4, 4>(w, row, x + t * x_stride, x_stride, ahead, y + t * y_stride + row,
                             y_stride);
    }
    const float* xt = x + t * x_stride;
    float* yt = y + t * y_stride + row;
    switch (positions - t) {
      case 1:
        row_sums<Format, 4, 1>(w, row, xt, x_stride, ahead, yt, y_stride);
        break;
      case 2:
        row_sums<Format, 4, 2>(w, row, xt, x_stride, ahead, yt, y_stride);
        break;
      case 3:
        row_sums<Format, 4, 3>(w, row, xt, x_stride, ahead, yt, y_stride);
        break;
      default:
        break;
    }
    ahead.next_rows();
  }
}

template <class Format>
void matmul_as(const Rows& rows, const float* x, std::size_t positions, float* y,
               std::size_t y_stride) {
  const Matrix<Format> w(rows);
  const std::size_t x_stride = padded(rows.columns);
  const std::size_t at_once = positions == 1 ? Format::kRowsAtOnce : 4;
  const std::size_t grouped = w.rows - w.rows % at_once;
  if (positions == 1) {
    one_position<Format, Format::kRowsAtOnce>(w, 0, grouped, x, y);
  } else {
    // No more positions at a time than the cache holds, since each group of rows reads them all.
    constexpr std::size_t kCachedFloats = 1 << 18;
    const std::size_t most =
        std::max<std::size_t>(kCachedFloats / std::max<std::size_t>(x_stride, 1), 8);
    for (std::size_t t = 0; t < positions; t += most) {
      positions_by_four<Format>(w, grouped, x + t * x_stride, x_stride,
                                std::min(positions - t, most), y + t * y_stride, y_stride);
    }
  }
  for (std::size_t t = 0; t < positions; ++t) {
    one_position<Format, 1>(w, grouped, w.rows, x + t * x_stride, y + t * y_stride);
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
    default:  // in the order of the columns, as for F32
      return prepare_as<F32>(x, x_stride, columns, positions, prepared);
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
    default:
      break;  // block_matmul(), scaled_matmul()
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

Rows slice(const Rows& w, std::size_t first, std::size_t count) {
  Rows part = w;
  part.data += first * bytes_per_row(w.format, w.columns);
  if (w.format == WeightFormat::mxfp4) part.scales += first * (w.columns / 32);
  if (w.format == WeightFormat::int4) part.scales += first * (w.columns / 32) * 2;
  if (w.format == WeightFormat::f8_e4m3) part.first += first;
  part.rows = count;
  return part;
}

bool same_order(WeightFormat a, WeightFormat b) {
  const auto own = [](WeightFormat format) {
    return format == WeightFormat::bf16 || format == WeightFormat::mxfp4;
  };
  return a == b || (!own(a) && !own(b));
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
  if (is_blocked(w.format)) return block_matmul(w, prepared, positions, y, y_stride);
  if (w.format == WeightFormat::f8_e4m3 || w.format == WeightFormat::int4) {
    return scaled_matmul(w, prepared, positions, y, y_stride);
  }
  HWY_DYNAMIC_DISPATCH(matmul)(w, prepared, positions, y, y_stride);
}

}  // namespace sluice::kernels
#endif  // HWY_ONCE
