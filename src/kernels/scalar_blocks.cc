// GGUF's block formats, one number after the other. Each function is the definition of its format:
// where the bits of a block lie, and in which order float32 products are formed.
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "kernels/blocks.h"
#include "kernels/scalar.h"

namespace sluice::kernels::scalar {
namespace {

using Byte = std::uint8_t;

constexpr std::array<std::int8_t, 16> kNonLinear = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                    1,    13,   25,  38,  53,  69,  89,  113};
// Twice the values of E2M1, so that they are whole.
constexpr std::array<std::int8_t, 16> kTwiceE2m1 = {0, 1,  2,  3,  4,  6,  8,  12,
                                                    0, -1, -2, -3, -4, -6, -8, -12};

float half_at(const Byte* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof(bits));
  return from_f16(bits);
}

/// 2^(byte - 128), for a table of twice the values; NaN for 255, which stands for no number.
float half_of_e8m0(Byte byte) {
  constexpr std::uint32_t kNan = 0x7FC00000;
  const std::uint32_t bits = byte;
  return std::bit_cast<float>(bits == 255 ? kNan
                              : bits < 2  ? 0x00200000u << bits
                                          : (bits - 1) << 23);
}

float number(int value) { return static_cast<float>(value); }

void decode_q4_0(const Byte* block, float* out) {
  const float d = half_at(block);
  for (std::size_t i = 0; i < 16; ++i) {
    out[i] = d * number((block[2 + i] & 15) - 8);
    out[i + 16] = d * number((block[2 + i] >> 4) - 8);
  }
}

void decode_q4_1(const Byte* block, float* out) {
  const float d = half_at(block);
  const float m = half_at(block + 2);
  for (std::size_t i = 0; i < 16; ++i) {
    out[i] = d * number(block[4 + i] & 15) + m;
    out[i + 16] = d * number(block[4 + i] >> 4) + m;
  }
}

/// Code i of the 5-bit formats: 16 bytes of lower bits, 32 fifth bits before them.
int five_bits(const Byte* fifths, const Byte* lower, std::size_t i) {
  const int fifth = fifths[i / 8] >> (i % 8) & 1;
  return (i < 16 ? lower[i] & 15 : lower[i - 16] >> 4) | fifth << 4;
}

void decode_q5_0(const Byte* block, float* out) {
  const float d = half_at(block);
  for (std::size_t i = 0; i < 32; ++i) {
    out[i] = d * number(five_bits(block + 2, block + 6, i) - 16);
  }
}

void decode_q5_1(const Byte* block, float* out) {
  const float d = half_at(block);
  const float m = half_at(block + 2);
  for (std::size_t i = 0; i < 32; ++i) {
    out[i] = d * number(five_bits(block + 4, block + 8, i)) + m;
  }
}

void decode_q8_0(const Byte* block, float* out) {
  const float d = half_at(block);
  for (std::size_t i = 0; i < 32; ++i) {
    out[i] = d * number(static_cast<std::int8_t>(block[2 + i]));
  }
}

void decode_table(float d, const std::array<std::int8_t, 16>& table, const Byte* codes,
                  float* out) {
  for (std::size_t i = 0; i < 16; ++i) {
    out[i] = d * number(table[codes[i] & 15]);
    out[i + 16] = d * number(table[codes[i] >> 4]);
  }
}

void decode_iq4_nl(const Byte* block, float* out) {
  decode_table(half_at(block), kNonLinear, block + 2, out);
}

void decode_mxfp4(const Byte* block, float* out) {
  decode_table(half_of_e8m0(block[0]), kTwiceE2m1, block + 1, out);
}

/// Bits of column c of a block of 2-bit codes: four columns, 32 apart, in a byte.
int two_bits(const Byte* codes, std::size_t c) {
  return codes[c / 128 * 32 + c % 32] >> (c % 128 / 32 * 2) & 3;
}

void decode_q2_k(const Byte* block, float* out) {
  const Byte* scales = block;
  const float d = half_at(block + 80);
  const float d_min = half_at(block + 82);
  for (std::size_t c = 0; c < 256; ++c) {
    const Byte scale = scales[c / 16];
    out[c] = d * number(scale & 15) * number(two_bits(block + 16, c)) - d_min * number(scale >> 4);
  }
}

/// The 6-bit scale of 16 columns: lower bits in eight bytes, upper ones in four.
int q3_scale(const Byte* scales, std::size_t group) {
  const int lower = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
  const int upper = scales[8 + group % 4] >> (group / 4 * 2) & 3;
  return (lower | upper << 4) - 32;
}

void decode_q3_k(const Byte* block, float* out) {
  const Byte* high = block;
  const float d = half_at(block + 108);
  for (std::size_t c = 0; c < 256; ++c) {
    const int third = high[c % 32] >> (c / 32) & 1;
    const float scale = d * number(q3_scale(block + 96, c / 16));
    out[c] = scale * number(two_bits(block + 32, c) - (third != 0 ? 0 : 4));
  }
}

/// Scale and minimum of 32 columns of Q4_K and Q5_K, 6 bits each, in 12 bytes.
struct ScaleAndMinimum {
  int scale;
  int minimum;
};
ScaleAndMinimum q4_scale(const Byte* packed, std::size_t group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  return {(packed[group + 4] & 15) | packed[group - 4] >> 6 << 4,
          packed[group + 4] >> 4 | packed[group] >> 6 << 4};
}

void decode_q4_k(const Byte* block, float* out) {
  const float d = half_at(block);
  const float d_min = half_at(block + 2);
  for (std::size_t c = 0; c < 256; ++c) {
    const auto [scale, minimum] = q4_scale(block + 4, c / 32);
    const Byte pair = block[16 + c / 64 * 32 + c % 32];
    const int code = c % 64 < 32 ? pair & 15 : pair >> 4;
    out[c] = d * number(scale) * number(code) - d_min * number(minimum);
  }
}

void decode_q5_k(const Byte* block, float* out) {
  const float d = half_at(block);
  const float d_min = half_at(block + 2);
  for (std::size_t c = 0; c < 256; ++c) {
    const auto [scale, minimum] = q4_scale(block + 4, c / 32);
    const Byte pair = block[48 + c / 64 * 32 + c % 32];
    const int fifth = block[16 + c % 32] >> (c / 32) & 1;
    const int code = (c % 64 < 32 ? pair & 15 : pair >> 4) | fifth << 4;
    out[c] = d * number(scale) * number(code) - d_min * number(minimum);
  }
}

void decode_q6_k(const Byte* block, float* out) {
  const float d = half_at(block + 208);
  for (std::size_t c = 0; c < 256; ++c) {
    const std::size_t part = c % 128;
    const Byte pair = block[c / 128 * 64 + part % 64];
    const int lower = part < 64 ? pair & 15 : pair >> 4;
    const int upper = block[128 + c / 128 * 32 + c % 32] >> (part / 32 * 2) & 3;
    const float scale = d * number(static_cast<std::int8_t>(block[192 + c / 16]));
    out[c] = scale * number((lower | upper << 4) - 32);
  }
}

void decode_iq4_xs(const Byte* block, float* out) {
  const float d = half_at(block);
  const unsigned upper = block[2] | static_cast<unsigned>(block[3]) << 8;
  for (std::size_t group = 0; group < 8; ++group) {
    const int lower = block[4 + group / 2] >> (group % 2 * 4) & 15;
    const int scale = (lower | static_cast<int>(upper >> (2 * group) & 3) << 4) - 32;
    decode_table(d * number(scale), kNonLinear, block + 8 + 16 * group, out + 32 * group);
  }
}

using Decoder = void (*)(const Byte* block, float* out);

Decoder decoder_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::q4_0:
      return decode_q4_0;
    case WeightFormat::q4_1:
      return decode_q4_1;
    case WeightFormat::q5_0:
      return decode_q5_0;
    case WeightFormat::q5_1:
      return decode_q5_1;
    case WeightFormat::q8_0:
      return decode_q8_0;
    case WeightFormat::iq4_nl:
      return decode_iq4_nl;
    case WeightFormat::mxfp4_blocks:
      return decode_mxfp4;
    case WeightFormat::q2_k:
      return decode_q2_k;
    case WeightFormat::q3_k:
      return decode_q3_k;
    case WeightFormat::q4_k:
      return decode_q4_k;
    case WeightFormat::q5_k:
      return decode_q5_k;
    case WeightFormat::q6_k:
      return decode_q6_k;
    case WeightFormat::iq4_xs:
      return decode_iq4_xs;
    case WeightFormat::f32:
    case WeightFormat::f16:
    case WeightFormat::bf16:
    case WeightFormat::mxfp4:
    case WeightFormat::f8_e4m3:
    case WeightFormat::int4:
      break;
  }
  return nullptr;
}

}  // namespace

void decode_blocks(WeightFormat format, const std::byte* row, std::size_t columns, float* out) {
  const Decoder decode = decoder_of(format);
  SLUICE_CHECK(decode != nullptr);
  const WeightBlock block = block_of(format);
  SLUICE_CHECK(columns % block.columns == 0);
  const auto* bytes = reinterpret_cast<const Byte*>(row);
  for (std::size_t first = 0; first < columns; first += block.columns, bytes += block.bytes) {
    decode(bytes, out + first);
  }
}

}  // namespace sluice::kernels::scalar
