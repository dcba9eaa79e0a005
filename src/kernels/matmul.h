// Weight rows times activations: where the engine's arithmetic is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

/// How the weights of a matrix are stored; they are decoded in registers.
enum class WeightFormat : std::uint8_t {
  f32,
  f16,
  bf16,
  mxfp4,  ///< 4-bit codes, low nibble = even column, and a scale byte per 32 columns (SPEC 4)
};

/// Consecutive rows of a matrix. The pointers may have any alignment.
struct Rows {
  WeightFormat format = WeightFormat::f32;
  const std::byte* data = nullptr;    ///< rows x bytes_per_row(format, columns), no padding
  const std::byte* scales = nullptr;  ///< mxfp4 only: rows x columns/32
  std::size_t rows = 0;
  std::size_t columns = 0;  ///< mxfp4: a multiple of 32
};

/// Bytes of one row of codes or numbers, scales not counted.
constexpr std::size_t bytes_per_row(WeightFormat format, std::size_t columns) {
  switch (format) {
    case WeightFormat::f32:
      return columns * 4;
    case WeightFormat::f16:
    case WeightFormat::bf16:
      return columns * 2;
    case WeightFormat::mxfp4:
      return columns / 2;
  }
  return 0;
}

/// Activations prepared for matmul(): the same numbers in the order that the decoders want.
/// Prepared once and used for all tiles of a matrix and for all matrices with the same input.
/// Floats of room that `positions` vectors of `columns` numbers need.
std::size_t prepared_floats(std::size_t columns, std::size_t positions);

/// x: [positions, columns], rows `x_stride` floats apart. prepared: prepared_floats() floats,
/// 64-byte aligned. The order serves one `format` (formats may share an order).
void prepare(WeightFormat format, const float* x, std::size_t x_stride, std::size_t columns,
             std::size_t positions, float* prepared);

/// y[t * y_stride + r] = sum over c of W[r][c] * x[t][c] in float32, for all rows r and positions
/// t. The bits of y[t][r] depend on row r and x[t] alone: not on the number of rows or positions in
/// the call, nor on alignment. Single-threaded; callers split rows over threads.
void matmul(const Rows& w, const float* prepared, std::size_t positions, float* y,
            std::size_t y_stride);

/// y[c] += sum over r of a[r] * W[r][c], added row by row in order of r: one row after the other,
/// so that splitting the rows over calls gives the same bits. (W transposed times a; for MLA with
/// the key projection absorbed.) f32, f16 and bf16 only.
void add_transposed(const Rows& w, const float* a, float* y);

/// Row r of `w` as float32, exactly. out: [columns].
void decode_row(const Rows& w, std::size_t row, float* out);

/// Index of the first mxfp4 scale byte that is 255 (NaN in the OCP format), or `count` if none.
std::size_t find_bad_scale(const std::byte* scales, std::size_t count);

}  // namespace sluice::kernels
