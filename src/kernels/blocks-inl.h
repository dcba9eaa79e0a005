// GGUF's block formats, decoded in registers. Included once per target (foreach_target).
//
// Every block is a sequence of groups of 16 neighbouring columns with one scale and, in some
// formats, one offset: weight = scale * code (+ offset), rounded as the definition of the format
// rounds it (scalar_blocks.cc), so that the weights that go into a sum are exactly those of the
// decoded row. A format hands its groups to a GroupAdder in the order of the columns.
//
// A row's sum is formed in two accumulators by turns, vector after vector, and their lanes are
// added at the end: whatever the number of rows or positions in the call.

// NOLINTNEXTLINE(llvm-header-guard): Highway's per-target include guard
#if defined(SLUICE_KERNELS_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_BLOCKS_INL_H_
#undef SLUICE_KERNELS_BLOCKS_INL_H_
#else
#define SLUICE_KERNELS_BLOCKS_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {

using Bytes16Tag = hn::Full128<std::uint8_t>;
using Codes16Tag = hn::Full128<std::int8_t>;
using Bytes16 = hn::Vec<Bytes16Tag>;
using Codes16 = hn::Vec<Codes16Tag>;

/// Vector number `kIndex` of 16 codes, as float32.
template <std::size_t kIndex>
HWY_INLINE Floats codes_to_floats(Codes16 codes) {
  const hn::RebindToSigned<FloatTag> ints;
#if HWY_CAP_GE512
  static_assert(kLanes == 16 && kIndex == 0);
  const auto part = codes;
#elif HWY_CAP_GE256
  static_assert(kLanes == 8);
  const auto shifted = hn::ShiftRightBytes<8 * kIndex>(Codes16Tag(), codes);
  const auto part = hn::LowerHalf(hn::Half<Codes16Tag>(), shifted);
#else
  static_assert(kLanes == 4);
  const auto shifted = hn::ShiftRightBytes<4 * kIndex>(Codes16Tag(), codes);
  const hn::Half<Codes16Tag> half;
  const auto part = hn::LowerHalf(hn::Half<decltype(half)>(), hn::LowerHalf(half, shifted));
#endif
  return hn::ConvertTo(FloatTag(), hn::PromoteTo(ints, part));
}

/// Adds the products of one row's weights and kPositions positions.
template <std::size_t kPositions>
class GroupAdder {
 public:
  HWY_INLINE GroupAdder(const float* x, std::size_t stride) : x_(x), stride_(stride) {
    for (auto& sums : sum_) {
      for (Floats& sum : sums) sum = hn::Zero(FloatTag());
    }
  }

  /// Group kGroup of the block: weights scale * code.
  template <std::size_t kGroup>
  HWY_INLINE void add(Codes16 codes, Floats scale) {
    add_vectors<kGroup, false>(codes, scale, scale);
  }
  /// Weights scale * code + offset.
  template <std::size_t kGroup>
  HWY_INLINE void add(Codes16 codes, Floats scale, Floats offset) {
    add_vectors<kGroup, true>(codes, scale, offset);
  }

  HWY_INLINE void next_block(std::size_t columns) { x_ += columns; }

  HWY_INLINE void store(float* y, std::size_t y_stride) const {
    for (std::size_t t = 0; t < kPositions; ++t) {
      y[t * y_stride] = hn::GetLane(hn::SumOfLanes(FloatTag(), hn::Add(sum_[t][0], sum_[t][1])));
    }
  }

 private:
  static constexpr std::size_t kVectors = 16 / kLanes;

  template <std::size_t kGroup, bool kOffset>
  HWY_INLINE void add_vectors(Codes16 codes, Floats scale, Floats offset) {
    add_vector<kGroup, 0, kOffset>(codes, scale, offset);
    if constexpr (kVectors > 1) add_vector<kGroup, 1, kOffset>(codes, scale, offset);
    if constexpr (kVectors > 2) {
      add_vector<kGroup, 2, kOffset>(codes, scale, offset);
      add_vector<kGroup, 3, kOffset>(codes, scale, offset);
    }
  }

  template <std::size_t kGroup, std::size_t kIndex, bool kOffset>
  HWY_INLINE void add_vector(Codes16 codes, Floats scale, Floats offset) {
    constexpr std::size_t kVector = kGroup * kVectors + kIndex;
    // Not fused: a product and a sum, each rounded, is what the formats define.
    Floats weight = hn::Mul(scale, codes_to_floats<kIndex>(codes));
    if constexpr (kOffset) weight = hn::Add(weight, offset);
    add_weights<kVector>(weight);
  }

 public:
  /// The weights of vector kVector from here on.
  template <std::size_t kVector>
  HWY_INLINE void add_weights(Floats weight) {
    const float* const x = x_ + kVector * kLanes;
    SLUICE_UNROLL(8)
    for (std::size_t t = 0; t < kPositions; ++t) {
      Floats& sum = sum_[t][kVector % 2];
      sum = hn::MulAdd(weight, hn::LoadU(FloatTag(), x + t * stride_), sum);
    }
  }

 private:
  const float* x_;
  std::size_t stride_;
  Floats sum_[kPositions][2];
};

/// The 16-bit number at `at` in all lanes.
HWY_INLINE Floats half_everywhere(const std::uint8_t* at) {
  const hn::Rebind<std::uint16_t, FloatTag> halves;
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof(bits));
  return from_half(hn::Set(halves, bits));
}

HWY_INLINE Bytes16 load16(const std::uint8_t* at) { return hn::LoadU(Bytes16Tag(), at); }
HWY_INLINE Bytes16 everywhere(unsigned byte) {
  return hn::Set(Bytes16Tag(), static_cast<std::uint8_t>(byte));
}
HWY_INLINE Bytes16 lower_nibbles(Bytes16 bytes) { return hn::And(bytes, everywhere(15)); }
HWY_INLINE Bytes16 upper_nibbles(Bytes16 bytes) { return hn::ShiftRight<4>(bytes); }
HWY_INLINE Codes16 as_codes(Bytes16 bytes) { return hn::BitCast(Codes16Tag(), bytes); }
HWY_INLINE Codes16 minus(Bytes16 codes, int bias) {
  return hn::Sub(as_codes(codes), hn::Set(Codes16Tag(), static_cast<std::int8_t>(bias)));
}
/// `value` where `bits` has a bit of `mask`, else 0.
HWY_INLINE Bytes16 where_set(Bytes16 bits, Bytes16 mask, unsigned value) {
  return hn::IfThenElseZero(hn::Eq(hn::And(bits, mask), mask), everywhere(value));
}

/// The values that the codes of IQ4_NL and IQ4_XS stand for.
HWY_INLINE Codes16 non_linear_values() {
  alignas(16) static constexpr std::int8_t kTable[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                         1,    13,   25,  38,  53,  69,  89,  113};
  return hn::Load(Codes16Tag(), kTable);
}

/// Groups kGroup and kGroup + 1: what `table` has for the lower and the upper nibbles of `pairs`.
template <std::size_t kGroup, class Adder>
HWY_INLINE void add_from_table(Codes16 table, Bytes16 pairs, Floats scale, Adder& adder) {
  adder.template add<kGroup>(hn::TableLookupBytes(table, as_codes(lower_nibbles(pairs))), scale);
  adder.template add<kGroup + 1>(hn::TableLookupBytes(table, as_codes(upper_nibbles(pairs))),
                                 scale);
}

/// 16 codes as floats in memory, to be spread over vectors one by one.
struct SmallFloats {
  HWY_INLINE explicit SmallFloats(Codes16 codes) {
    const FloatTag floats;
    hn::Store(codes_to_floats<0>(codes), floats, value);
#if !HWY_CAP_GE512
    hn::Store(codes_to_floats<1>(codes), floats, value + kLanes);
#if !HWY_CAP_GE256
    hn::Store(codes_to_floats<2>(codes), floats, value + 2 * kLanes);
    hn::Store(codes_to_floats<3>(codes), floats, value + 3 * kLanes);
#endif
#endif
  }
  HWY_INLINE Floats everywhere(std::size_t index) const {
    return hn::Set(FloatTag(), value[index]);
  }
  HWY_ALIGN float value[16];
};

template <class Format, std::size_t kPositions>
HWY_INLINE void block_row(const std::uint8_t* row, std::size_t blocks, const float* x,
                          std::size_t x_stride, float* y, std::size_t y_stride) {
  constexpr std::size_t kAhead = 4096;  // bytes; the rows that follow are read next
  constexpr std::size_t kLine = 64;
  GroupAdder<kPositions> adder(x, x_stride);
  for (std::size_t b = 0; b < blocks; ++b) {
    for (std::size_t at = 0; at < Format::kBytes; at += kLine) {
      // A number: it may lie past the end of the matrix.
      hwy::Prefetch(
          reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(row) + kAhead + at));
    }
    Format::decode(row, adder);
    row += Format::kBytes;
    adder.next_block(Format::kColumns);
  }
  adder.store(y, y_stride);
}

/// Rows of a format of blocks.
template <class Format>
struct BlockRows {
  template <std::size_t kPositions>
  static HWY_INLINE void row(const Rows& w, std::size_t r, const float* x, std::size_t x_stride,
                             float* y, std::size_t y_stride) {
    const std::size_t blocks = w.columns / Format::kColumns;
    const auto* const data = reinterpret_cast<const std::uint8_t*>(w.data);
    block_row<Format, kPositions>(data + r * blocks * Format::kBytes, blocks, x, x_stride, y,
                                  y_stride);
  }
};

/// Each row of the matrix times all positions. Kind::row() is for some positions at once.
template <class Kind>
HWY_NOINLINE void matmul_by_rows(const Rows& w, const float* x, std::size_t positions, float* y,
                                 std::size_t y_stride) {
  constexpr std::size_t kAtOnce = kRegisters / 4;  // positions: two accumulators each
  // No more positions at a time than the cache holds, since each row reads them all.
  constexpr std::size_t kCachedFloats = 1 << 18;
  const std::size_t x_stride = hwy::RoundUpTo(w.columns, std::size_t{128});  // of prepare()
  const std::size_t most =
      std::max(kCachedFloats / std::max<std::size_t>(x_stride, 1) / kAtOnce, std::size_t{1}) *
      kAtOnce;
  for (std::size_t first = 0; first < positions; first += most) {
    const std::size_t last = std::min(positions, first + most);
    for (std::size_t r = 0; r < w.rows; ++r) {
      std::size_t t = first;
      for (; t + kAtOnce <= last; t += kAtOnce) {
        Kind::template row<kAtOnce>(w, r, x + t * x_stride, x_stride, y + t * y_stride + r,
                                    y_stride);
      }
      for (; t < last; ++t) {
        Kind::template row<1>(w, r, x + t * x_stride, x_stride, y + t * y_stride + r, y_stride);
      }
    }
  }
}

template <class Format>
void block_matmul_as(const Rows& w, const float* x, std::size_t positions, float* y,
                     std::size_t y_stride) {
  matmul_by_rows<BlockRows<Format>>(w, x, positions, y, y_stride);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
