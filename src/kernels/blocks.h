// Rows of GGUF's block formats: what matmul.cc and transposed.cc pass on.
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

namespace scalar {

/// One row of a format of blocks as float32, with the roundings that the format's definition has.
void decode_blocks(WeightFormat format, const std::byte* row, std::size_t columns, float* out);

}  // namespace scalar
}  // namespace sluice::kernels
