// GGUF's formats with blocks of 256 columns, each of 8 or 16 parts with a scale of their own.
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/super_block_matmul.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/blocks.h"
#include "kernels/scalar.h"
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "kernels/blocks-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

void super_block_matmul(const Rows& w, const float* x, std::size_t positions, float* y,
                        std::size_t y_stride) {
  scalar::matmul(w, x, positions, y, y_stride);
}

#else

/// The 2-bit codes of groups kGroup, kGroup + 2, ... + 6, which share bytes, in turn.
template <std::size_t kShift>
HWY_INLINE Bytes16 two_bits(Bytes16 bytes) {
  return hn::And(hn::ShiftRight<kShift>(bytes), everywhere(3));
}

/// 128 columns: groups kGroup .. kGroup + 7 of 2-bit codes, given to `part` one by one.
template <std::size_t kGroup, class Part>
HWY_INLINE void add_two_bits(const std::uint8_t* codes, Part part) {
  const Bytes16 even = load16(codes);
  const Bytes16 odd = load16(codes + 16);
  part.template add<kGroup + 0>(two_bits<0>(even));
  part.template add<kGroup + 1>(two_bits<0>(odd));
  part.template add<kGroup + 2>(two_bits<2>(even));
  part.template add<kGroup + 3>(two_bits<2>(odd));
  part.template add<kGroup + 4>(two_bits<4>(even));
  part.template add<kGroup + 5>(two_bits<4>(odd));
  part.template add<kGroup + 6>(two_bits<6>(even));
  part.template add<kGroup + 7>(two_bits<6>(odd));
}

/// Three words of packed scales.
struct PackedScales {
  HWY_INLINE explicit PackedScales(const std::uint8_t* packed) {
    std::memcpy(&a, packed, 4);
    std::memcpy(&b, packed + 4, 4);
    std::memcpy(&c, packed + 8, 4);
  }
  static constexpr std::uint32_t kNibbles = 0x0F0F0F0Fu;
  static constexpr std::uint32_t kPairs = 0x03030303u;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t c = 0;
};

/// Sixteen bytes out of four words.
HWY_INLINE Bytes16 bytes_of(const std::uint32_t (&words)[4]) {
  return hn::BitCast(Bytes16Tag(), hn::LoadU(hn::Full128<std::uint32_t>(), words));
}

struct Q2K {
  static constexpr std::size_t kColumns = 256;
  static constexpr std::size_t kBytes = 84;

  struct Scales {
    HWY_INLINE explicit Scales(const std::uint8_t* block)
        : scale(as_codes(lower_nibbles(load16(block)))),
          minimum(as_codes(upper_nibbles(load16(block)))),
          d(half_everywhere(block + 80)),
          minus_d_min(hn::Neg(half_everywhere(block + 82))) {}
    SmallFloats scale;
    SmallFloats minimum;
    Floats d;
    Floats minus_d_min;
  };

  template <class Adder>
  struct Part {
    template <std::size_t kGroup>
    HWY_INLINE void add(Bytes16 codes) {
      adder.template add<kGroup>(as_codes(codes), hn::Mul(s.d, s.scale.everywhere(kGroup)),
                                 hn::Mul(s.minus_d_min, s.minimum.everywhere(kGroup)));
    }
    const Scales& s;
    Adder& adder;
  };

  template <class Adder>
  static HWY_INLINE void decode(const std::uint8_t* block, Adder& adder) {
    const Scales scales(block);
    add_two_bits<0>(block + 16, Part<Adder>{scales, adder});
    add_two_bits<8>(block + 48, Part<Adder>{scales, adder});
  }
};

struct Q3K {
  static constexpr std::size_t kColumns = 256;
  static constexpr std::size_t kBytes = 110;

  /// Sixteen scales of 6 bits: lower nibbles in eight bytes, the other two bits in four.
  static HWY_INLINE Codes16 scales(const std::uint8_t* block) {
    const PackedScales p(block);
    const std::uint32_t words[4] = {(p.a & p.kNibbles) | (p.c & p.kPairs) << 4,
                                    (p.b & p.kNibbles) | (p.c >> 2 & p.kPairs) << 4,
                                    (p.a >> 4 & p.kNibbles) | (p.c >> 4 & p.kPairs) << 4,
                                    (p.b >> 4 & p.kNibbles) | (p.c >> 6 & p.kPairs) << 4};
    return minus(bytes_of(words), 32);
  }

  template <class Adder>
  struct Part {
    /// The third bit is bit kGroup / 2 of `high`; where it is missing, the code is 4 less.
    template <std::size_t kGroup>
    HWY_INLINE void add(Bytes16 lower) {
      const Bytes16 high = kGroup % 2 == 0 ? high_even : high_odd;
      const Bytes16 third = where_set(high, everywhere(1u << (kGroup / 2)), 4);
      adder.template add<kGroup>(minus(hn::Or(lower, third), 4),
                                 hn::Mul(d, scale.everywhere(kGroup)));
    }
    Bytes16 high_even;
    Bytes16 high_odd;
    Floats d;
    const SmallFloats& scale;
    Adder& adder;
  };

  template <class Adder>
  static HWY_INLINE void decode(const std::uint8_t* block, Adder& adder) {
    const SmallFloats scale(scales(block + 96));
    const Part<Adder> part{load16(block), load16(block + 16), half_everywhere(block + 108), scale,
                           adder};
    add_two_bits<0>(block + 32, part);
    add_two_bits<8>(block + 64, part);
  }
};

/// Scales and minimums of Q4_K and Q5_K, 6 bits each in 12 bytes: eight of each.
struct SixBitScales {
  HWY_INLINE explicit SixBitScales(const std::uint8_t* block)
      : value(unpack(block + 4)),
        d(half_everywhere(block)),
        minus_d_min(hn::Neg(half_everywhere(block + 2))) {}

  static HWY_INLINE Codes16 unpack(const std::uint8_t* packed) {
    constexpr std::uint32_t kSix = 0x3F3F3F3Fu;
    const PackedScales p(packed);
    const std::uint32_t words[4] = {p.a & kSix, (p.c & p.kNibbles) | (p.a >> 6 & p.kPairs) << 4,
                                    p.b & kSix,
                                    (p.c >> 4 & p.kNibbles) | (p.b >> 6 & p.kPairs) << 4};
    return as_codes(bytes_of(words));
  }

  HWY_INLINE Floats scale(std::size_t part) const { return hn::Mul(d, value.everywhere(part)); }
  HWY_INLINE Floats offset(std::size_t part) const {
    return hn::Mul(minus_d_min, value.everywhere(8 + part));
  }

  SmallFloats value;
  Floats d;
  Floats minus_d_min;
};

/// Part kPart: 32 columns.
template <std::size_t kPart, class Adder>
HWY_INLINE void add_part(Codes16 first, Codes16 second, const SixBitScales& s, Adder& adder) {
  const Floats scale = s.scale(kPart);
  const Floats offset = s.offset(kPart);
  adder.template add<2 * kPart>(first, scale, offset);
  adder.template add<2 * kPart + 1>(second, scale, offset);
}

struct Q4K {
  static constexpr std::size_t kColumns = 256;
  static constexpr std::size_t kBytes = 144;

  /// 64 columns: parts kPart and kPart + 1.
  template <std::size_t kPart, class Adder>
  static HWY_INLINE void quarter(const std::uint8_t* codes, const SixBitScales& s, Adder& adder) {
    const Bytes16 first = load16(codes);
    const Bytes16 second = load16(codes + 16);
    add_part<kPart>(as_codes(lower_nibbles(first)), as_codes(lower_nibbles(second)), s, adder);
    add_part<kPart + 1>(as_codes(upper_nibbles(first)), as_codes(upper_nibbles(second)), s, adder);
  }

  template <class Adder>
  static HWY_INLINE void decode(const std::uint8_t* block, Adder& adder) {
    const SixBitScales scales(block);
    quarter<0>(block + 16, scales, adder);
    quarter<2>(block + 48, scales, adder);
    quarter<4>(block + 80, scales, adder);
    quarter<6>(block + 112, scales, adder);
  }
};

struct Q5K {
  static constexpr std::size_t kColumns = 256;
  static constexpr std::size_t kBytes = 176;

  /// 64 columns; the fifth bit of part p is bit p of `fifths`.
  template <std::size_t kPart, class Adder>
  static HWY_INLINE void quarter(const std::uint8_t* codes, const std::uint8_t* fifths,
                                 const SixBitScales& s, Adder& adder) {
    const Bytes16 first = load16(codes);
    const Bytes16 second = load16(codes + 16);
    const Bytes16 first_fifths = load16(fifths);
    const Bytes16 second_fifths = load16(fifths + 16);
    const Bytes16 bit = everywhere(1u << kPart);
    const Bytes16 next_bit = everywhere(2u << kPart);
    const auto with = [](Bytes16 lower, Bytes16 bits, Bytes16 mask)
                          HWY_ATTR { return as_codes(hn::Or(lower, where_set(bits, mask, 16))); };
    add_part<kPart>(with(lower_nibbles(first), first_fifths, bit),
                    with(lower_nibbles(second), second_fifths, bit), s, adder);
    add_part<kPart + 1>(with(upper_nibbles(first), first_fifths, next_bit),
                        with(upper_nibbles(second), second_fifths, next_bit), s, adder);
  }

  template <class Adder>
  static HWY_INLINE void decode(const std::uint8_t* block, Adder& adder) {
    const SixBitScales scales(block);
    quarter<0>(block + 48, block + 16, scales, adder);
    quarter<2>(block + 80, block + 16, scales, adder);
    quarter<4>(block + 112, block + 16, scales, adder);
    quarter<6>(block + 144, block + 16, scales, adder);
  }
};

struct Q6K {
  static constexpr std::size_t kColumns = 256;
  static constexpr std::size_t kBytes = 210;

  template <std::size_t kGroup, class Adder>
  static HWY_INLINE void add(Bytes16 lower, Bytes16 upper, Floats d, const SmallFloats& scale,
                             Adder& adder) {
    adder.template add<kGroup>(minus(hn::Or(lower, upper), 32),
                               hn::Mul(d, scale.everywhere(kGroup)));
  }

  /// 128 columns. `lower`: 64 bytes of nibbles; `upper`: 32 bytes of four pairs of bits.
  template <std::size_t kGroup, class Adder>
  static HWY_INLINE void half(const std::uint8_t* lower, const std::uint8_t* upper, Floats d,
                              const SmallFloats& scale, Adder& adder) {
    const Bytes16 a = load16(lower);
    const Bytes16 b = load16(lower + 16);
    const Bytes16 c = load16(lower + 32);
    const Bytes16 e = load16(lower + 48);
    const Bytes16 even = load16(upper);
    const Bytes16 odd = load16(upper + 16);
    const auto first = [](Bytes16 bits)
                           HWY_ATTR { return hn::ShiftLeft<4>(hn::And(bits, everywhere(3))); };
    const auto second = [](Bytes16 bits)
                            HWY_ATTR { return hn::ShiftLeft<2>(hn::And(bits, everywhere(12))); };
    const auto third = [](Bytes16 bits) HWY_ATTR { return hn::And(bits, everywhere(48)); };
    const auto fourth = [](Bytes16 bits)
                            HWY_ATTR { return hn::ShiftRight<2>(hn::And(bits, everywhere(192))); };
    add<kGroup + 0>(lower_nibbles(a), first(even), d, scale, adder);
    add<kGroup + 1>(lower_nibbles(b), first(odd), d, scale, adder);
    add<kGroup + 2>(lower_nibbles(c), second(even), d, scale, adder);
    add<kGroup + 3>(lower_nibbles(e), second(odd), d, scale, adder);
    add<kGroup + 4>(upper_nibbles(a), third(even), d, scale, adder);
    add<kGroup + 5>(upper_nibbles(b), third(odd), d, scale, adder);
    add<kGroup + 6>(upper_nibbles(c), fourth(even), d, scale, adder);
    add<kGroup + 7>(upper_nibbles(e), fourth(odd), d, scale, adder);
  }

  template <class Adder>
  static HWY_INLINE void decode(const std::uint8_t* block, Adder& adder) {
    const SmallFloats scale(as_codes(load16(block + 192)));
    const Floats d = half_everywhere(block + 208);
    half<0>(block, block + 128, d, scale, adder);
    half<8>(block + 64, block + 160, d, scale, adder);
  }
};

struct Iq4Xs {
  static constexpr std::size_t kColumns = 256;
  static constexpr std::size_t kBytes = 136;

  template <std::size_t kPart, class Adder>
  static HWY_INLINE void part(const std::uint8_t* block, Floats d, Codes16 table, Adder& adder) {
    const unsigned lower = block[4 + kPart / 2] >> (kPart % 2 * 4) & 15u;
    const unsigned upper = block[2 + kPart / 4] >> (kPart % 4 * 2) & 3u;
    const int scale = static_cast<int>(lower | upper << 4) - 32;
    const Floats all = hn::Mul(d, hn::Set(FloatTag(), static_cast<float>(scale)));
    const Bytes16 pairs = load16(block + 8 + 16 * kPart);
    add_from_table<2 * kPart>(table, pairs, all, adder);
  }

  template <class Adder>
  static HWY_INLINE void decode(const std::uint8_t* block, Adder& adder) {
    const Floats d = half_everywhere(block);
    const Codes16 table = non_linear_values();
    part<0>(block, d, table, adder);
    part<1>(block, d, table, adder);
    part<2>(block, d, table, adder);
    part<3>(block, d, table, adder);
    part<4>(block, d, table, adder);
    part<5>(block, d, table, adder);
    part<6>(block, d, table, adder);
    part<7>(block, d, table, adder);
  }
};

void super_block_matmul(const Rows& w, const float* x, std::size_t positions, float* y,
                        std::size_t y_stride) {
  switch (w.format) {
    case WeightFormat::q2_k:
      return block_matmul_as<Q2K>(w, x, positions, y, y_stride);
    case WeightFormat::q3_k:
      return block_matmul_as<Q3K>(w, x, positions, y, y_stride);
    case WeightFormat::q4_k:
      return block_matmul_as<Q4K>(w, x, positions, y, y_stride);
    case WeightFormat::q5_k:
      return block_matmul_as<Q5K>(w, x, positions, y, y_stride);
    case WeightFormat::q6_k:
      return block_matmul_as<Q6K>(w, x, positions, y, y_stride);
    case WeightFormat::iq4_xs:
      return block_matmul_as<Iq4Xs>(w, x, positions, y, y_stride);
    default:
      break;  // the caller passes no other
  }
}

#endif
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels {

HWY_EXPORT(super_block_matmul);

void super_block_matmul(const Rows& w, const float* prepared, std::size_t positions, float* y,
                        std::size_t y_stride) {
  HWY_DYNAMIC_DISPATCH(super_block_matmul)(w, prepared, positions, y, y_stride);
}

}  // namespace sluice::kernels
#endif  // HWY_ONCE
