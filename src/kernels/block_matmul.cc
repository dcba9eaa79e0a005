// GGUF's formats with blocks of 32 columns.
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/block_matmul.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/check.h"
#include "kernels/blocks.h"
#include "kernels/scalar.h"
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "kernels/blocks-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

void block_matmul(const Rows& w, const float* x, std::size_t positions, float* y,
                  std::size_t y_stride) {
  scalar::matmul(w, x, positions, y, y_stride);
}

#else

/// 16 where one of 16 bits is set; they begin at byte kFirst of the four at `bits`.
template <std::size_t kFirst>
HWY_INLINE Bytes16 fifth_bits(const std::uint8_t* bits) {
  alignas(16) static constexpr std::uint8_t kByte[16] = {
      kFirst,     kFirst,     kFirst,     kFirst,     kFirst,     kFirst,
      kFirst,     kFirst,     kFirst + 1, kFirst + 1, kFirst + 1, kFirst + 1,
      kFirst + 1, kFirst + 1, kFirst + 1, kFirst + 1};
  alignas(16) static constexpr std::uint8_t kBit[16] = {1, 2, 4, 8, 16, 32, 64, 128,
                                                        1, 2, 4, 8, 16, 32, 64, 128};
  const Bytes16Tag tag;
  std::uint32_t word = 0;
  std::memcpy(&word, bits, sizeof(word));
  const auto all = hn::BitCast(tag, hn::Set(hn::Full128<std::uint32_t>(), word));
  return where_set(hn::TableLookupBytes(all, hn::Load(tag, kByte)), hn::Load(tag, kBit), 16);
}

/// A scale, in some formats an offset, in some a fifth bit for each code, and the codes' nibbles.
template <bool kOffset, bool kFifth>
struct Nibbles {
  static constexpr std::size_t kColumns = 32;
  static constexpr std::size_t kFifths = kOffset ? 4 : 2;  // where they begin
  static constexpr std::size_t kCodes = kFifths + (kFifth ? 4 : 0);
  static constexpr std::size_t kBytes = kCodes + 16;
  template <class Adder>
  static HWY_INLINE void decode(const std::uint8_t* block, Adder& adder) {
    const Floats scale = half_everywhere(block);
    const Bytes16 pairs = load16(block + kCodes);
    Bytes16 first = lower_nibbles(pairs);
    Bytes16 second = upper_nibbles(pairs);
    if constexpr (kFifth) {
      first = hn::Or(first, fifth_bits<0>(block + kFifths));
      second = hn::Or(second, fifth_bits<2>(block + kFifths));
    }
    if constexpr (kOffset) {
      const Floats minimum = half_everywhere(block + 2);
      adder.template add<0>(as_codes(first), scale, minimum);
      adder.template add<1>(as_codes(second), scale, minimum);
    } else {
      constexpr int kBias = kFifth ? 16 : 8;
      adder.template add<0>(minus(first, kBias), scale);
      adder.template add<1>(minus(second, kBias), scale);
    }
  }
};
using Q4_0 = Nibbles<false, false>;
using Q4_1 = Nibbles<true, false>;
using Q5_0 = Nibbles<false, true>;
using Q5_1 = Nibbles<true, true>;

struct Q8_0 {
  static constexpr std::size_t kColumns = 32;
  static constexpr std::size_t kBytes = 34;
  template <class Adder>
  static HWY_INLINE void decode(const std::uint8_t* block, Adder& adder) {
    const Floats scale = half_everywhere(block);
    adder.template add<0>(as_codes(load16(block + 2)), scale);
    adder.template add<1>(as_codes(load16(block + 18)), scale);
  }
};

struct Iq4Nl {
  static constexpr std::size_t kColumns = 32;
  static constexpr std::size_t kBytes = 18;
  template <class Adder>
  static HWY_INLINE void decode(const std::uint8_t* block, Adder& adder) {
    const Floats scale = half_everywhere(block);
    const Codes16 table = non_linear_values();
    add_from_table<0>(table, load16(block + 2), scale, adder);
  }
};

struct Mxfp4Blocks {
  static constexpr std::size_t kColumns = 32;
  static constexpr std::size_t kBytes = 17;
  template <class Adder>
  static HWY_INLINE void decode(const std::uint8_t* block, Adder& adder) {
    // Twice the values of E2M1, so that they are whole; the scale is halved. One of 255 stands for
    // no number: as NaN it makes the row's product NaN whatever the codes are, which ends the pass.
    constexpr std::uint32_t kNan = 0x7FC00000;
    alignas(16) static constexpr std::int8_t kTable[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                           0, -1, -2, -3, -4, -6, -8, -12};
    const std::uint32_t exponent = block[0];
    const std::uint32_t bits = exponent == 255 ? kNan
                               : exponent < 2  ? 0x00200000u << exponent
                                               : (exponent - 1) << 23;
    const Floats scale = hn::BitCast(FloatTag(), hn::Set(BitsTag(), bits));
    const Codes16 table = hn::Load(Codes16Tag(), kTable);
    add_from_table<0>(table, load16(block + 1), scale, adder);
  }
};

void block_matmul(const Rows& w, const float* x, std::size_t positions, float* y,
                  std::size_t y_stride) {
  switch (w.format) {
    case WeightFormat::q4_0:
      return block_matmul_as<Q4_0>(w, x, positions, y, y_stride);
    case WeightFormat::q4_1:
      return block_matmul_as<Q4_1>(w, x, positions, y, y_stride);
    case WeightFormat::q5_0:
      return block_matmul_as<Q5_0>(w, x, positions, y, y_stride);
    case WeightFormat::q5_1:
      return block_matmul_as<Q5_1>(w, x, positions, y, y_stride);
    case WeightFormat::q8_0:
      return block_matmul_as<Q8_0>(w, x, positions, y, y_stride);
    case WeightFormat::iq4_nl:
      return block_matmul_as<Iq4Nl>(w, x, positions, y, y_stride);
    case WeightFormat::mxfp4_blocks:
      return block_matmul_as<Mxfp4Blocks>(w, x, positions, y, y_stride);
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

HWY_EXPORT(block_matmul);

void block_matmul(const Rows& w, const float* prepared, std::size_t positions, float* y,
                  std::size_t y_stride) {
  SLUICE_CHECK(is_blocked(w.format) && w.columns % block_of(w.format).columns == 0);
  if (block_of(w.format).columns == 256) {
    return super_block_matmul(w, prepared, positions, y, y_stride);
  }
  HWY_DYNAMIC_DISPATCH(block_matmul)(w, prepared, positions, y, y_stride);
}

}  // namespace sluice::kernels
#endif  // HWY_ONCE
