// What attention remembers of past positions, row by row: keys, values, latents.
#pragma once

#include <cstddef>
#include <string_view>

#include "kernels/matmul.h"

namespace sluice::kernels {

/// How the numbers of a cache are kept. Only F32 keeps them as they were computed. Each row is
/// rounded by itself, so its bits do not depend on what is cached before or with it.
constexpr bool is_cache_format(WeightFormat format) {
  return format == WeightFormat::f32 || format == WeightFormat::bf16 ||
         format == WeightFormat::q8_0;
}

/// "f32", "bf16", "q8_0".
constexpr std::string_view cache_format_name(WeightFormat format) {
  return format == WeightFormat::f32 ? "f32" : format == WeightFormat::bf16 ? "bf16" : "q8_0";
}

/// Numbers that a cached row of `width` has room for: whole blocks.
constexpr std::size_t cached_width(WeightFormat format, std::size_t width) {
  const std::size_t columns = block_of(format).columns;
  return (width + columns - 1) / columns * columns;
}
constexpr std::size_t cached_row_bytes(WeightFormat format, std::size_t width) {
  return bytes_per_row(format, cached_width(format, width));
}

/// Writes a row of a cache. BF16: rounded to nearest, ties to even. Q8_0: codes of the largest
/// magnitude's 127th, which is kept as F16 (ggml's definition); a row that is not finite reads as
/// NaN.
void cache_row(WeightFormat format, const float* row, std::size_t width, std::byte* to);

/// Rows of a cache that a head attends to: `count` of a ring of `rows`, from row `first` on. Keys
/// and values may be the same rows.
struct CachedRows {
  WeightFormat format = WeightFormat::f32;
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
  std::size_t rows = 0;
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t key_width = 0;
  std::size_t value_stride = 0;  ///< numbers of a whole row of values
  std::size_t value_width = 0;   ///< of which so many are mixed
  const float* sinks = nullptr;  ///< by head: softmax_with_sink(), or null
};

/// attention_heads() of ops.h over a cache. The bits do not depend on where the ring begins.
void attention_over_cache(const float* queries, std::size_t heads, const CachedRows& seen,
                          float scale, float* scores, float* out);

namespace scalar {
void attention_over_cache(const float* queries, std::size_t heads, const CachedRows& seen,
                          float scale, float* scores, float* out);
}  // namespace scalar
}  // namespace sluice::kernels
