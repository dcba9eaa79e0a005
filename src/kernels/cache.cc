#include "kernels/cache.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/ops.h"
#include "kernels/scalar.h"

namespace sluice::kernels {
namespace {

constexpr std::size_t kBlock = block_of(WeightFormat::q8_0).columns;
constexpr float kLargestCode = 127;

std::uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return 0x7FC0;
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/// For x >= 0, to nearest, ties to even. NaN where F16 has no number as large.
std::uint16_t to_f16(float x) {
  if (!(x < 65520.0f)) return 0x7E00;
  // Numbers below 2^-14 are multiples of 2^-24; those above keep ten bits of mantissa.
  if (x < 0x1p-14f) return static_cast<std::uint16_t>(std::nearbyint(x * 0x1p24f));
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0xFFF + (bits >> 13 & 1) - (112u << 23)) >> 13);
}

void cache_block(const float* x, std::size_t count, std::byte* to) {
  float largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    // A NaN stays the largest.
    if (!(std::fabs(x[i]) <= largest) && !std::isnan(largest)) largest = std::fabs(x[i]);
  }
  const float step = largest / kLargestCode;
  const std::uint16_t scale = to_f16(step);
  std::int8_t codes[kBlock] = {};
  const float per_step = kLargestCode / largest;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // Numbers so small that this overflows have a scale of 0, with which codes mean nothing.
  if (step > 0 && step < kInfinity && per_step < kInfinity) {
    for (std::size_t i = 0; i < count; ++i) {
      codes[i] = static_cast<std::int8_t>(
          std::clamp(std::round(x[i] * per_step), -kLargestCode, kLargestCode));
    }
  }
  std::memcpy(to, &scale, sizeof(scale));
  std::memcpy(to + sizeof(scale), codes, sizeof(codes));
}

}  // namespace

void cache_row(WeightFormat format, const float* row, std::size_t width, std::byte* to) {
  switch (format) {
    case WeightFormat::f32:
      std::memcpy(to, row, width * sizeof(float));
      return;
    case WeightFormat::bf16:
      for (std::size_t i = 0; i < width; ++i) {
        const std::uint16_t bits = to_bf16(row[i]);
        std::memcpy(to + i * sizeof(bits), &bits, sizeof(bits));
      }
      return;
    case WeightFormat::q8_0:
      for (std::size_t i = 0; i < width; i += kBlock) {
        cache_block(row + i, std::min(kBlock, width - i),
                    to + i / kBlock * block_of(WeightFormat::q8_0).bytes);
      }
      return;
    default:
      SLUICE_CHECK(is_cache_format(format));
  }
}

namespace scalar {

void attention_over_cache(const float* queries, std::size_t heads, const CachedRows& seen,
                          float scale, float* scores, float* out) {
  const auto row_of = [&](const std::byte* data, std::size_t width, std::size_t s) {
    std::vector<float> row(cached_width(seen.format, width));
    decode_row({seen.format, data, nullptr, seen.rows, row.size()}, (seen.first + s) % seen.rows,
               row.data());
    return row;
  };
  for (std::size_t s = 0; s < seen.count; ++s) {
    const std::vector<float> key = row_of(seen.keys, seen.key_width, s);
    for (std::size_t h = 0; h < heads; ++h) {
      scores[h * seen.count + s] =
          dot(queries + h * seen.key_width, key.data(), seen.key_width) * scale;
    }
  }
  for (std::size_t h = 0; h < heads; ++h) {
    float* const row = scores + h * seen.count;
    if (seen.sinks != nullptr) {
      softmax_with_sink(row, seen.count, seen.sinks[h]);
    } else {
      softmax(row, seen.count);
    }
  }
  std::fill_n(out, heads * seen.value_width, 0.0f);
  for (std::size_t s = 0; s < seen.count; ++s) {
    const std::vector<float> value = row_of(seen.values, seen.value_stride, s);
    for (std::size_t h = 0; h < heads; ++h) {
      add_scaled(scores[h * seen.count + s], value.data(), seen.value_width,
                 out + h * seen.value_width);
    }
  }
}

}  // namespace scalar
}  // namespace sluice::kernels
