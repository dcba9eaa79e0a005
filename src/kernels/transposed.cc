// Weight rows used one number at a time: decoding a row, and a matrix transposed times a vector.
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/transposed.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "base/check.h"
#include "kernels/blocks.h"
#include "kernels/matmul.h"
#include "kernels/scalar.h"
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "kernels/weights-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

using scalar::add_transposed;
using scalar::decode_row;

#else

template <class Format>
void decode_step(const std::uint8_t* codes, const std::uint8_t* scales, std::size_t columns,
                 float* out) {
  const FloatTag floats;
  HWY_ALIGN float decoded[Format::kColumns];
  Floats w[Format::kVectors];
  Format::decode(codes, w);
  for (std::size_t v = 0; v < Format::kVectors; ++v) {
    if constexpr (Format::kScales > 0) w[v] = hn::Mul(w[v], Format::scales(scales));
    hn::Store(w[v], floats, decoded + v * kLanes);
  }
  for_each_column<Format>(columns, [&](std::size_t column, std::size_t position)
                                       HWY_ATTR { out[column] = decoded[position]; });
}

template <class Format>
void decode_row_as(const Rows& rows, std::size_t row, float* out) {
  const Matrix<Format> w(rows);
  for (std::size_t s = 0; s < w.steps; ++s) {
    const RowBytes from = w.at(row, s);
    decode_step<Format>(from.data, from.scales, Format::kColumns, out + s * Format::kColumns);
  }
  if (w.partial_columns > 0) {
    const auto last = w.template partial_step<1>(row, 1);
    decode_step<Format>(last.codes[0], last.scales[0], w.partial_columns,
                        out + w.steps * Format::kColumns);
  }
}

/// sums += a[r] * row r for each of kRows rows in order, over one step.
template <class Format, std::size_t kRows>
HWY_INLINE void add_step(const RowBytes& from, const float* a, float* sums) {
  const FloatTag floats;
  Floats sum[Format::kVectors];
  for (std::size_t v = 0; v < Format::kVectors; ++v) {
    sum[v] = hn::Load(floats, sums + v * kLanes);
  }
  SLUICE_UNROLL(8)
  for (std::size_t r = 0; r < kRows; ++r) {
    Floats w[Format::kVectors];
    Format::decode(from.data + r * from.stride, w);
    for (std::size_t v = 0; v < Format::kVectors; ++v) {
      sum[v] = hn::MulAdd(hn::Set(floats, a[r]), w[v], sum[v]);
    }
  }
  for (std::size_t v = 0; v < Format::kVectors; ++v) hn::Store(sum[v], floats, sums + v * kLanes);
}

/// A block of y, in the order of decode(), and the steps of a row that go with it.
struct Block {
  static constexpr std::size_t kColumns = 1024;
  HWY_ALIGN float sums[kColumns];
  std::size_t first;
  std::size_t last;
};

/// block.sums += a[r] * row r for kRows rows from `row` on.
template <class Format, std::size_t kRows>
HWY_INLINE void add_rows(const Matrix<Format>& w, std::size_t row, const float* a, Block& block) {
  ReadAhead<Format, kRows> ahead(w, row, block.first);
  for (std::size_t s = block.first; s < std::min(block.last, w.steps); ++s) {
    for (std::size_t r = 0; r < kRows; ++r) ahead.row(r);
    ahead.advance();
    add_step<Format, kRows>(w.at(row, s), a + row,
                            block.sums + (s - block.first) * Format::kColumns);
  }
  if (block.last > w.steps) {
    const auto partial = w.template partial_step<kRows>(row, kRows);
    add_step<Format, kRows>(partial.rows(), a + row,
                            block.sums + (w.steps - block.first) * Format::kColumns);
  }
}

template <class Format>
void add_transposed_as(const Rows& rows, const float* a, float* y) {
  constexpr std::size_t kBlock = Block::kColumns / Format::kColumns;
  constexpr std::size_t kRows = 8;
  const Matrix<Format> w(rows);
  const std::size_t steps = w.steps + (w.partial_columns > 0 ? 1 : 0);
  Block block{};
  const auto columns_of = [&w](std::size_t step) HWY_ATTR {
    return step < w.steps ? Format::kColumns : w.partial_columns;
  };
  for (block.first = 0; block.first < steps; block.first = block.last) {
    block.last = std::min(block.first + kBlock, steps);
    for (std::size_t s = block.first; s < block.last; ++s) {
      to_decoded_order<Format>(y + s * Format::kColumns, columns_of(s),
                               block.sums + (s - block.first) * Format::kColumns);
    }
    std::size_t row = 0;
    for (; row + kRows <= w.rows; row += kRows) add_rows<Format, kRows>(w, row, a, block);
    for (; row < w.rows; ++row) add_rows<Format, 1>(w, row, a, block);
    for (std::size_t s = block.first; s < block.last; ++s) {
      from_decoded_order<Format>(block.sums + (s - block.first) * Format::kColumns, columns_of(s),
                                 y + s * Format::kColumns);
    }
  }
}

void decode_row(const Rows& w, std::size_t row, float* out) {
  switch (w.format) {
    case WeightFormat::f32:
      return decode_row_as<F32>(w, row, out);
    case WeightFormat::f16:
      return decode_row_as<F16>(w, row, out);
    case WeightFormat::bf16:
      return decode_row_as<Bf16>(w, row, out);
    case WeightFormat::mxfp4:
      return decode_row_as<Mxfp4>(w, row, out);
    default:
      return scalar::decode_row(w, row, out);  // no row of blocks is decoded often
  }
}

void add_transposed(const Rows& w, const float* a, float* y) {
  switch (w.format) {
    case WeightFormat::f32:
      return add_transposed_as<F32>(w, a, y);
    case WeightFormat::f16:
      return add_transposed_as<F16>(w, a, y);
    case WeightFormat::bf16:
      return add_transposed_as<Bf16>(w, a, y);
    default:
      break;  // refused below
  }
}

#endif
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels {

HWY_EXPORT(decode_row);
HWY_EXPORT(add_transposed);

void decode_row(const Rows& w, std::size_t row, float* out) {
  if (w.format == WeightFormat::f8_e4m3) return decode_f8_row(w, row, out);
  HWY_DYNAMIC_DISPATCH(decode_row)(w, row, out);
}

void add_transposed(const Rows& w, const float* a, float* y) {
  SLUICE_CHECK(w.format < WeightFormat::mxfp4);
  HWY_DYNAMIC_DISPATCH(add_transposed)(w, a, y);
}

}  // namespace sluice::kernels
#endif  // HWY_ONCE
