// Rows of GGUF's block formats and of those with scales that lie apart: what matmul.cc and
// transposed.cc pass on.
#pragma once

#include <cstddef>

#include "kernels/matmul.h"

namespace sluice::kernels {

/// matmul() for formats of blocks. `prepared` is in the order of F32: as it came.
void block_matmul(const Rows& w, const float* prepared, std::size_t positions, float* y,
                  std::size_t y_stride);
/// The same for the formats of 256 columns.
void super_block_matmul(const Rows& w, const float* prepared, std::size_t positions, float* y,
                        std::size_t y_stride);

/// The same for f8_e4m3 and int4.
void scaled_matmul(const Rows& w, const float* prepared, std::size_t positions, float* y,
                   std::size_t y_stride);
/// decode_row() of f8_e4m3.
void decode_f8_row(const Rows& w, std::size_t row, float* out);

namespace scalar {

/// One row of a format of blocks as float32, with the roundings that the format's definition has.
void decode_blocks(WeightFormat format, const std::byte* row, std::size_t columns, float* out);

}  // namespace scalar
}  // namespace sluice::kernels
