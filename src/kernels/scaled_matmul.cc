// Formats of safetensors whose scales lie apart and whose columns are in order: FP8 in blocks of
// 128 x 128 (DeepSeek V3) and INT4 in groups of 32 (compressed-tensors).
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/scaled_matmul.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "kernels/blocks.h"
#include "kernels/scalar.h"
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "kernels/blocks-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

void scaled_matmul(const Rows& w, const float* x, std::size_t positions, float* y,
                   std::size_t y_stride) {
  scalar::matmul(w, x, positions, y, y_stride);
}

void decode_f8_row(const Rows& w, std::size_t row, float* out) { scalar::decode_row(w, row, out); }

#else

/// Numbers of E4M3 divided by 256: as F16 they have the same bits but for the exponent's bias, and
/// their subnormal numbers cost no more than others. Its NaN would be a number in F16.
HWY_INLINE Floats f8_by_256(const std::uint8_t* at) {
  const hn::Rebind<std::int8_t, FloatTag> bytes;
  const hn::Rebind<std::int16_t, FloatTag> shorts;
  const hn::Rebind<std::uint16_t, FloatTag> halves;
  const auto raw = hn::LoadU(bytes, reinterpret_cast<const std::int8_t*>(at));
  // The sign comes along twice; it stays where F16 has it.
  const auto moved = hn::And(hn::ShiftLeft<7>(hn::PromoteTo(shorts, raw)),
                             hn::Set(shorts, static_cast<std::int16_t>(0xBFFF)));
  const auto magnitude = hn::And(moved, hn::Set(shorts, std::int16_t{0x7FFF}));
  const auto is_nan = hn::Eq(magnitude, hn::Set(shorts, std::int16_t{0x3F80}));
  const auto half = hn::IfThenElse(is_nan, hn::Set(shorts, std::int16_t{0x7E00}), moved);
  return from_half(hn::BitCast(halves, half));
}

/// A row's bytes, and its scales times 256.
struct F8Row {
  F8Row(const Rows& w, std::size_t r)
      : bytes(reinterpret_cast<const std::uint8_t*>(w.data) + r * w.columns),
        scales(w.scales + (w.first + r) / kF8Block * f8_blocks(w.columns) * sizeof(float)) {}

  HWY_INLINE Floats scale(std::size_t block) const {
    float value = 0;
    std::memcpy(&value, scales + block * sizeof(value), sizeof(value));
    return hn::Set(FloatTag(), value * 256.0f);
  }

  const std::uint8_t* bytes;
  const std::byte* scales;
};

struct F8Rows {
  static constexpr std::size_t kStep = 32;  // columns

  template <std::size_t kPositions>
  static HWY_INLINE void row(const Rows& w, std::size_t r, const float* x, std::size_t x_stride,
                             float* y, std::size_t y_stride) {
    constexpr std::size_t kAhead = 4096;  // bytes; the rows that follow are read next
    const F8Row from(w, r);
    GroupAdder<kPositions> adder(x, x_stride);
    for (std::size_t first = 0; first < w.columns; first += kF8Block) {
      const Floats scale = from.scale(first / kF8Block);
      const std::size_t last = std::min(first + kF8Block, w.columns);
      for (std::size_t at = first; at < last; at += kStep) {
        hwy::Prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(from.bytes) +
                                                    at + kAhead));
        add_step<0>(from.bytes + at, scale, adder);
        adder.next_block(kStep);
      }
    }
    adder.store(y, y_stride);
  }

 private:
  template <std::size_t kVector, class Adder>
  static HWY_INLINE void add_step(const std::uint8_t* at, Floats scale, Adder& adder) {
    if constexpr (kVector * kLanes < kStep) {
      adder.template add_weights<kVector>(hn::Mul(scale, f8_by_256(at + kVector * kLanes)));
      add_step<kVector + 1>(at, scale, adder);
    }
  }
};

struct Int4Rows {
  template <std::size_t kPositions>
  static HWY_INLINE void row(const Rows& w, std::size_t r, const float* x, std::size_t x_stride,
                             float* y, std::size_t y_stride) {
    constexpr std::size_t kAhead = 4096;
    const Bytes16Tag tag;
    const std::size_t groups = w.columns / 32;
    const auto* const codes = reinterpret_cast<const std::uint8_t*>(w.data) + r * groups * 16;
    const std::byte* const scales = w.scales + r * groups * 2;
    GroupAdder<kPositions> adder(x, x_stride);
    for (std::size_t group = 0; group < groups; ++group) {
      hwy::Prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(codes) +
                                                  16 * group + kAhead));
      std::uint16_t bits = 0;
      std::memcpy(&bits, scales + 2 * group, sizeof(bits));
      const Floats scale =
          hn::Set(FloatTag(), std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
      const Bytes16 pairs = load16(codes + 16 * group);
      const Bytes16 even = lower_nibbles(pairs);
      const Bytes16 odd = upper_nibbles(pairs);
      adder.template add<0>(minus(hn::InterleaveLower(tag, even, odd), 8), scale);
      adder.template add<1>(minus(hn::InterleaveUpper(tag, even, odd), 8), scale);
      adder.next_block(32);
    }
    adder.store(y, y_stride);
  }
};

void scaled_matmul(const Rows& w, const float* x, std::size_t positions, float* y,
                   std::size_t y_stride) {
  if (w.format == WeightFormat::int4) {
    matmul_by_rows<Int4Rows>(w, x, positions, y, y_stride);
  } else {
    matmul_by_rows<F8Rows>(w, x, positions, y, y_stride);
  }
}

void decode_f8_row(const Rows& w, std::size_t row, float* out) {
  const F8Row from(w, row);
  for (std::size_t c = 0; c < w.columns; c += kLanes) {
    hn::StoreU(hn::Mul(from.scale(c / kF8Block), f8_by_256(from.bytes + c)), FloatTag(), out + c);
  }
}

#endif
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels {

HWY_EXPORT(scaled_matmul);
HWY_EXPORT(decode_f8_row);

void scaled_matmul(const Rows& w, const float* prepared, std::size_t positions, float* y,
                   std::size_t y_stride) {
  SLUICE_CHECK(w.columns % 32 == 0 && w.scales != nullptr);
  HWY_DYNAMIC_DISPATCH(scaled_matmul)(w, prepared, positions, y, y_stride);
}

void decode_f8_row(const Rows& w, std::size_t row, float* out) {
  SLUICE_CHECK(w.columns % 32 == 0 && w.scales != nullptr);
  HWY_DYNAMIC_DISPATCH(decode_f8_row)(w, row, out);
}

}  // namespace sluice::kernels
#endif  // HWY_ONCE
