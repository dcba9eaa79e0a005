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
  mxfp4,    ///< 4-bit codes, low nibble = even column, and a scale byte per 32 columns (SPEC 4)
  f8_e4m3,  ///< 8-bit floats (OCP), and a float32 scale per 128 rows and 128 columns (DeepSeek V3)
  int4,     ///< whole numbers plus 8, low nibble = even column, and a bf16 scale per 32 columns

  // GGUF's: blocks of 32 or 256 columns, each with its scales inside (docs/formats.md).
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  iq4_nl,
  mxfp4_blocks,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_xs,
};

/// Whether the format is one of blocks.
constexpr bool is_blocked(WeightFormat format) { return format >= WeightFormat::q4_0; }

/// Columns and rows that share a scale of f8_e4m3.
inline constexpr std::size_t kF8Block = 128;
constexpr std::size_t f8_blocks(std::size_t n) { return (n + kF8Block - 1) / kF8Block; }

/// Columns of a block, and its bytes. For formats without blocks: one column.
struct WeightBlock {
  std::size_t columns;
  std::size_t bytes;
};
constexpr WeightBlock block_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::f32:
      return {1, 4};
    case WeightFormat::f16:
    case WeightFormat::bf16:
      return {1, 2};
    case WeightFormat::mxfp4:
    case WeightFormat::int4:
      return {2, 1};  // two codes in a byte; the scales lie apart
    case WeightFormat::f8_e4m3:
      return {1, 1};
    case WeightFormat::q4_0:
    case WeightFormat::iq4_nl:
      return {32, 18};
    case WeightFormat::q4_1:
      return {32, 20};
    case WeightFormat::q5_0:
      return {32, 22};
    case WeightFormat::q5_1:
      return {32, 24};
    case WeightFormat::q8_0:
      return {32, 34};
    case WeightFormat::mxfp4_blocks:
      return {32, 17};
    case WeightFormat::q2_k:
      return {256, 84};
    case WeightFormat::q3_k:
      return {256, 110};
    case WeightFormat::q4_k:
      return {256, 144};
    case WeightFormat::q5_k:
      return {256, 176};
    case WeightFormat::q6_k:
      return {256, 210};
    case WeightFormat::iq4_xs:
      return {256, 136};
  }
  return {1, 0};
}

/// Consecutive rows of a matrix. The pointers may have any alignment.
struct Rows {
  WeightFormat format = WeightFormat::f32;
  const std::byte* data = nullptr;  ///< rows x bytes_per_row(format, columns), no padding
  /// mxfp4, int4: rows x columns/32; f8_e4m3: of the whole matrix, f8_blocks(rows) x
  /// f8_blocks(columns); else none.
  const std::byte* scales = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;  ///< formats with scales: a multiple of 32; of blocks: whole blocks
  std::size_t first = 0;    ///< f8_e4m3: which row of the matrix the first one is
};

/// Bytes of one row of codes or numbers, scales that lie apart not counted.
constexpr std::size_t bytes_per_row(WeightFormat format, std::size_t columns) {
  const WeightBlock block = block_of(format);
  return columns / block.columns * block.bytes;
}

/// Rows [first, first + count) of `w`.
Rows slice(const Rows& w, std::size_t first, std::size_t count);

/// Whether the two formats take activations in the same order (prepare()).
bool same_order(WeightFormat a, WeightFormat b);

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
