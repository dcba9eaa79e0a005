#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "kernels/blocks.h"
#include "kernels/scalar.h"

namespace sluice::kernels::scalar {
namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float half_to_float(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7FFFu;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  if (magnitude >= 0x7C00u) {  // infinity and NaN; a NaN becomes quiet as instructions do it
    const std::uint32_t payload = (magnitude & 0x03FFu) << 13;
    return std::bit_cast<float>(sign | 0x7F800000u | payload | (payload != 0 ? 0x00400000u : 0u));
  }
  const float number = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(number));
}

float from_e2m1(unsigned code) {
  constexpr float kMagnitudes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  const float magnitude = kMagnitudes[code & 7u];
  return (code & 8u) != 0 ? -magnitude : magnitude;
}

float from_e8m0(std::byte scale) {
  const auto byte = std::to_integer<std::uint32_t>(scale);
  return std::bit_cast<float>(byte == 0 ? 0x00400000u : byte << 23);
}

/// OCP's E4M3: four bits of exponent, three of mantissa, no infinity.
float from_e4m3(std::byte byte) {
  const auto bits = std::to_integer<std::uint32_t>(byte);
  const std::uint32_t exponent = bits >> 3 & 15u;
  const std::uint32_t mantissa = bits & 7u;
  float magnitude = 0;
  if (exponent == 0) {
    magnitude = static_cast<float>(mantissa) * 0x1p-9f;
  } else if (exponent == 15 && mantissa == 7) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else {
    magnitude = std::bit_cast<float>((exponent + 120) << 23 | mantissa << 20);
  }
  return (bits & 0x80u) != 0 ? -magnitude : magnitude;
}

/// Number or, for the formats with scales, code of one weight; the scale is not applied.
float unscaled(const Rows& w, const std::byte* row, std::size_t column) {
  switch (w.format) {
    case WeightFormat::f32:
      return load<float>(row + 4 * column);
    case WeightFormat::f16:
      return half_to_float(load<std::uint16_t>(row + 2 * column));
    case WeightFormat::bf16:
      return from_bf16(load<std::uint16_t>(row + 2 * column));
    case WeightFormat::mxfp4: {
      const auto pair = std::to_integer<unsigned>(row[column / 2]);
      return from_e2m1(column % 2 == 0 ? pair & 15u : pair >> 4);
    }
    case WeightFormat::int4: {
      const auto pair = std::to_integer<int>(row[column / 2]);
      return static_cast<float>((column % 2 == 0 ? pair & 15 : pair >> 4) - 8);
    }
    case WeightFormat::f8_e4m3:
      return from_e4m3(row[column]);
    default:
      return 0.0f;  // formats of blocks are decoded row by row
  }
}

float scale_of(const Rows& w, std::size_t row, std::size_t column) {
  const std::size_t group = row * (w.columns / 32) + column / 32;
  switch (w.format) {
    case WeightFormat::mxfp4:
      return from_e8m0(w.scales[group]);
    case WeightFormat::int4:
      return from_bf16(load<std::uint16_t>(w.scales + 2 * group));
    case WeightFormat::f8_e4m3:
      return load<float>(
          w.scales + 4 * ((w.first + row) / kF8Block * f8_blocks(w.columns) + column / kF8Block));
    default:
      return 1.0f;
  }
}

const std::byte* row_at(const Rows& w, std::size_t row) {
  return w.data + row * bytes_per_row(w.format, w.columns);
}

float scaled_sum(const Rows& w, std::size_t row, const float* x) {
  const std::byte* codes = row_at(w, row);
  const std::byte* scales = w.scales + row * (w.columns / 32);
  float sum = 0.0f;
  for (std::size_t group = 0; group < w.columns / 32; ++group) {
    float group_sum = 0.0f;
    for (std::size_t c = 32 * group; c < 32 * group + 32; ++c) {
      group_sum += unscaled(w, codes, c) * x[c];
    }
    sum += from_e8m0(scales[group]) * group_sum;
  }
  return sum;
}

float block_sum(const Rows& w, std::size_t row, const float* x) {
  constexpr std::size_t kColumns = 256;  // whole blocks of every format
  float decoded[kColumns];
  float sum = 0.0f;
  for (std::size_t first = 0; first < w.columns; first += kColumns) {
    const std::size_t count = std::min(kColumns, w.columns - first);
    decode_blocks(w.format, row_at(w, row) + bytes_per_row(w.format, first), count, decoded);
    for (std::size_t c = 0; c < count; ++c) sum += decoded[c] * x[first + c];
  }
  return sum;
}

/// Formats whose weights are one number each, times a scale or not.
float plain_sum(const Rows& w, std::size_t row, const float* x) {
  const std::byte* numbers = row_at(w, row);
  float sum = 0.0f;
  for (std::size_t c = 0; c < w.columns; ++c) {
    sum += unscaled(w, numbers, c) * scale_of(w, row, c) * x[c];
  }
  return sum;
}

}  // namespace

void prepare(WeightFormat, const float* x, std::size_t x_stride, std::size_t columns,
             std::size_t positions, float* prepared) {
  for (std::size_t t = 0; t < positions; ++t) {
    std::copy_n(x + t * x_stride, columns, prepared + prepared_floats(columns, t));
  }
}

void matmul(const Rows& w, const float* prepared, std::size_t positions, float* y,
            std::size_t y_stride) {
  for (std::size_t t = 0; t < positions; ++t) {
    const float* x = prepared + prepared_floats(w.columns, t);
    for (std::size_t r = 0; r < w.rows; ++r) {
      y[t * y_stride + r] = is_blocked(w.format)              ? block_sum(w, r, x)
                            : w.format == WeightFormat::mxfp4 ? scaled_sum(w, r, x)
                                                              : plain_sum(w, r, x);
    }
  }
}

void add_transposed(const Rows& w, const float* a, float* y) {
  for (std::size_t r = 0; r < w.rows; ++r) {
    for (std::size_t c = 0; c < w.columns; ++c) y[c] += a[r] * unscaled(w, row_at(w, r), c);
  }
}

float from_f16(std::uint16_t bits) { return half_to_float(bits); }

void decode_row(const Rows& w, std::size_t row, float* out) {
  if (is_blocked(w.format)) return decode_blocks(w.format, row_at(w, row), w.columns, out);
  for (std::size_t c = 0; c < w.columns; ++c) {
    out[c] = unscaled(w, row_at(w, row), c) * scale_of(w, row, c);
  }
}

}  // namespace sluice::kernels::scalar
