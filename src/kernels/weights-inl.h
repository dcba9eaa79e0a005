// Weight formats, decoded in registers. Included once per target (foreach_target).
//
// A format cuts a row into steps of kColumns columns, stored in kBytes bytes, and decodes a step
// into kVectors vectors. Which column lands in which lane is the format's affair (column_of); the
// activations are put into the same order beforehand, so that the decoders need no shuffles to
// restore it. The last step of a row may be partial: its bytes are copied next to zeros first.
//
// The sum of a row is always formed in the same way: one vector accumulator for the whole row,
// steps in order, vectors of a step in order, lanes added at the end. No other blocking touches a
// sum, which is what makes its bits independent of everything but the row and its activations.

// NOLINTNEXTLINE(llvm-header-guard): Highway's per-target include guard
#if defined(SLUICE_KERNELS_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_WEIGHTS_INL_H_
#undef SLUICE_KERNELS_WEIGHTS_INL_H_
#else
#define SLUICE_KERNELS_WEIGHTS_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/matmul.h"
#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {

using ByteTag = hn::Repartition<std::uint8_t, FloatTag>;

/// Where some rows' codes are. The strides lead from one row to the next, in bytes.
struct RowBytes {
  const std::uint8_t* data;
  std::size_t stride;
  const std::uint8_t* scales;
  std::size_t scale_stride;
};

struct F32 {
  static constexpr std::size_t kVectors = 1;
  static constexpr std::size_t kColumns = kLanes;
  static constexpr std::size_t kBytes = 4 * kColumns;
  static constexpr std::size_t kScales = 0;
  static constexpr std::size_t kRowsAtOnce = 8;  // for one position; measured

  static constexpr std::size_t column_of(std::size_t, std::size_t lane) { return lane; }

  static HWY_INLINE void decode(const std::uint8_t* bytes, Floats* out) {
    out[0] = hn::BitCast(FloatTag(), hn::LoadU(ByteTag(), bytes));
  }
};

/// Numbers of 16 bits as float32.
HWY_INLINE Floats from_half(hn::Vec<hn::Rebind<std::uint16_t, FloatTag>> raw) {
#if HWY_TARGET == HWY_SSE4
  // No conversion instruction, and Highway's emulation reads infinities and NaN as numbers. The
  // bits moved into place are the number times 2^-112, which also holds for subnormals.
  const FloatTag floats;
  const BitsTag bits;
  const auto wide = hn::PromoteTo(bits, raw);
  const auto magnitude = hn::ShiftLeft<13>(hn::And(wide, hn::Set(bits, 0x7FFFu)));
  const auto sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(bits, 0x8000u)));
  const auto number = hn::Mul(hn::BitCast(floats, magnitude), hn::Set(floats, 0x1p112f));
  const auto special = hn::IfThenElseZero(hn::Ge(number, hn::Set(floats, 65536.0f)),
                                          hn::BitCast(floats, hn::Set(bits, 0x7F800000u)));
  return hn::Or(hn::Or(number, special), hn::BitCast(floats, sign));
#else
  const hn::Rebind<hwy::float16_t, FloatTag> halves;
  return hn::PromoteTo(FloatTag(), hn::BitCast(halves, raw));
#endif
}

struct F16 {
  static constexpr std::size_t kVectors = 1;
  static constexpr std::size_t kColumns = kLanes;
  static constexpr std::size_t kBytes = 2 * kColumns;
  static constexpr std::size_t kScales = 0;
  static constexpr std::size_t kRowsAtOnce = 8;  // for one position; measured

  static constexpr std::size_t column_of(std::size_t, std::size_t lane) { return lane; }

  static HWY_INLINE void decode(const std::uint8_t* bytes, Floats* out) {
    const hn::Rebind<std::uint16_t, FloatTag> halves;
    out[0] = from_half(hn::BitCast(halves, hn::LoadU(hn::Half<ByteTag>(), bytes)));
  }
};

/// A 32-bit lane holds two neighbours; each is the upper half of a float32. First the vector of the
/// even columns, then that of the odd ones.
struct Bf16 {
  static constexpr std::size_t kVectors = 2;
  static constexpr std::size_t kColumns = 2 * kLanes;
  static constexpr std::size_t kBytes = 2 * kColumns;
  static constexpr std::size_t kScales = 0;
  static constexpr std::size_t kRowsAtOnce = 8;  // for one position; measured

  static constexpr std::size_t column_of(std::size_t vector, std::size_t lane) {
    return 2 * lane + vector;
  }

  static HWY_INLINE void decode(const std::uint8_t* bytes, Floats* out) {
    const BitsTag bits;
    const auto pairs = hn::BitCast(bits, hn::LoadU(ByteTag(), bytes));
    out[0] = hn::BitCast(FloatTag(), hn::ShiftLeft<16>(pairs));
    out[1] = hn::BitCast(FloatTag(), hn::And(pairs, hn::Set(bits, 0xFFFF0000u)));
  }
};

/// E2M1 codes as floats; the scales are applied to sums of 32 columns, not here. The 16 bytes of a
/// group lie in one 128-bit part of the register, so group g is lanes 4g .. 4g+3 of all eight
/// vectors.
struct Mxfp4 {
  static constexpr std::size_t kVectors = 8;
  static constexpr std::size_t kColumns = 8 * kLanes;
  static constexpr std::size_t kBytes = kColumns / 2;
  static constexpr std::size_t kScales = kColumns / 32;
  static constexpr std::size_t kRowsAtOnce = 2;  // for one position; measured

#if HWY_CAP_GE512
  // Lane i holds columns 8i .. 8i+7 as nibbles; a permutation of 16 floats looks at 4 bits of its
  // index only, so shifting is all it takes.
  static constexpr std::size_t column_of(std::size_t vector, std::size_t lane) {
    return 8 * lane + vector;
  }

  static HWY_INLINE Floats look_up(hn::Vec<BitsTag> codes) {
    alignas(64) static constexpr float kTable[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,
                                                     4.0f,  6.0f,  -0.0f, -0.5f, -1.0f, -1.5f,
                                                     -2.0f, -3.0f, -4.0f, -6.0f};
    // Made by hand: IndicesFromVec() would want the upper bits cleared.
    const hn::Indices512<float> indices{codes.raw};
    return hn::TableLookupLanes(hn::Load(FloatTag(), kTable), indices);
  }

  static HWY_INLINE void decode(const std::uint8_t* bytes, Floats* out) {
    const auto codes = hn::BitCast(BitsTag(), hn::LoadU(ByteTag(), bytes));
    out[0] = look_up(codes);
    out[1] = look_up(hn::ShiftRight<4>(codes));
    out[2] = look_up(hn::ShiftRight<8>(codes));
    out[3] = look_up(hn::ShiftRight<12>(codes));
    out[4] = look_up(hn::ShiftRight<16>(codes));
    out[5] = look_up(hn::ShiftRight<20>(codes));
    out[6] = look_up(hn::ShiftRight<24>(codes));
    out[7] = look_up(hn::ShiftRight<28>(codes));
  }
#else
  // Byte tables give the upper and lower byte of each code as bf16; interleaved they are bf16
  // pairs.
  static constexpr std::size_t column_of(std::size_t vector, std::size_t lane) {
    constexpr std::size_t kFirst[8] = {0, 2, 16, 18, 1, 3, 17, 19};
    return 32 * (lane / 4) + 4 * (lane % 4) + kFirst[vector];
  }

  static HWY_INLINE void decode_nibbles(hn::Vec<ByteTag> nibbles, Floats* out) {
    alignas(16) static constexpr std::uint8_t kLower[16] = {0x00, 0x00, 0x80, 0xC0, 0x00, 0x40,
                                                            0x80, 0xC0, 0x00, 0x00, 0x80, 0xC0,
                                                            0x00, 0x40, 0x80, 0xC0};
    alignas(16) static constexpr std::uint8_t kUpper[16] = {0x00, 0x3F, 0x3F, 0x3F, 0x40, 0x40,
                                                            0x40, 0x40, 0x80, 0xBF, 0xBF, 0xBF,
                                                            0xC0, 0xC0, 0xC0, 0xC0};
    const ByteTag bytes;
    const BitsTag bits;
    const auto odd = hn::Set(bits, 0xFFFF0000u);
    const auto lower = hn::TableLookupBytes(hn::LoadDup128(bytes, kLower), nibbles);
    const auto upper = hn::TableLookupBytes(hn::LoadDup128(bytes, kUpper), nibbles);
    const auto first = hn::BitCast(bits, hn::InterleaveLower(bytes, lower, upper));
    const auto second = hn::BitCast(bits, hn::InterleaveUpper(bytes, lower, upper));
    out[0] = hn::BitCast(FloatTag(), hn::ShiftLeft<16>(first));
    out[1] = hn::BitCast(FloatTag(), hn::And(first, odd));
    out[2] = hn::BitCast(FloatTag(), hn::ShiftLeft<16>(second));
    out[3] = hn::BitCast(FloatTag(), hn::And(second, odd));
  }

  static HWY_INLINE void decode(const std::uint8_t* bytes, Floats* out) {
    const ByteTag tag;
    const auto codes = hn::LoadU(tag, bytes);
    decode_nibbles(hn::And(codes, hn::Set(tag, std::uint8_t{0x0F})), out);
    decode_nibbles(hn::ShiftRight<4>(codes), out + 4);
  }
#endif

  /// The scales of a step: 2^(byte - 127) in the four lanes of each group. The byte becomes the
  /// exponent field; byte 0 is a subnormal and gets its bit from the maximum.
  static HWY_INLINE Floats scales(const std::uint8_t* scales) {
    alignas(64) static constexpr std::uint8_t kToTop[64] = {
        128, 128, 128, 0, 128, 128, 128, 0, 128, 128, 128, 0, 128, 128, 128, 0,
        128, 128, 128, 1, 128, 128, 128, 1, 128, 128, 128, 1, 128, 128, 128, 1,
        128, 128, 128, 2, 128, 128, 128, 2, 128, 128, 128, 2, 128, 128, 128, 2,
        128, 128, 128, 3, 128, 128, 128, 3, 128, 128, 128, 3, 128, 128, 128, 3};
    const BitsTag bits;
    std::uint32_t packed = 0;
    std::memcpy(&packed, scales, kScales);
    const auto all = hn::BitCast(ByteTag(), hn::Set(bits, packed));
    const auto top = hn::TableLookupBytesOr0(all, hn::Load(ByteTag(), kToTop));
    const auto exponents = hn::ShiftRight<1>(hn::BitCast(bits, top));
    return hn::BitCast(FloatTag(), hn::Max(exponents, hn::Set(bits, 0x00400000u)));
  }
};

/// Calls visit(column, position in the order of decode()) for the first `columns` columns of a
/// step.
template <class Format, class Visit>
HWY_INLINE void for_each_column(std::size_t columns, Visit visit) {
  for (std::size_t v = 0; v < Format::kVectors; ++v) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::size_t column = Format::column_of(v, lane);
      if (column < columns) visit(column, v * kLanes + lane);
    }
  }
}

/// Copies `columns` numbers of a step into the order of decode(), or back.
template <class Format>
HWY_INLINE void to_decoded_order(const float* from, std::size_t columns, float* to) {
  for_each_column<Format>(columns, [=](std::size_t column, std::size_t position)
                                       HWY_ATTR { to[position] = from[column]; });
}
template <class Format>
HWY_INLINE void from_decoded_order(const float* from, std::size_t columns, float* to) {
  for_each_column<Format>(columns, [=](std::size_t column, std::size_t position)
                                       HWY_ATTR { to[column] = from[position]; });
}

/// The last columns % kColumns columns of some rows, zeros after them: what the kernels below read
/// when the last step is partial, since nothing lets them read past the end of a row.
template <class Format, std::size_t kRows>
struct PartialStep {
  PartialStep(const RowBytes& w, std::size_t rows, std::size_t bytes, std::size_t scale_bytes) {
    std::memset(codes, 0, sizeof(codes));
    std::memset(scales, 127, sizeof(scales));  // 1: a subnormal number would be slow
    for (std::size_t r = 0; r < rows; ++r) {
      std::memcpy(codes[r], w.data + r * w.stride, bytes);
      if constexpr (Format::kScales > 0) {
        std::memcpy(scales[r], w.scales + r * w.scale_stride, scale_bytes);
      }
    }
  }

  RowBytes rows() const { return {codes[0], Format::kBytes, scales[0], sizeof(scales[0])}; }

  std::uint8_t codes[kRows][Format::kBytes];
  std::uint8_t scales[kRows][std::max<std::size_t>(Format::kScales, 1)];
};

/// Rows of one tile and how their columns fall into steps.
template <class Format>
struct Matrix {
  explicit Matrix(const Rows& w)
      : bytes{reinterpret_cast<const std::uint8_t*>(w.data), bytes_per_row(w.format, w.columns),
              reinterpret_cast<const std::uint8_t*>(w.scales),
              Format::kScales > 0 ? w.columns / 32 : 0},
        rows(w.rows),
        steps(w.columns / Format::kColumns),
        partial_columns(w.columns % Format::kColumns),
        partial_bytes(bytes_per_row(w.format, partial_columns)) {}

  /// Where `row` has its step `step`.
  RowBytes at(std::size_t row, std::size_t step) const {
    RowBytes from = bytes;
    from.data += row * bytes.stride + step * Format::kBytes;
    if constexpr (Format::kScales > 0) {
      from.scales += row * bytes.scale_stride + step * Format::kScales;
    }
    return from;
  }

  template <std::size_t kRows>
  PartialStep<Format, kRows> partial_step(std::size_t row, std::size_t count) const {
    return {at(row, steps), count, partial_bytes, partial_columns / 32};
  }

  RowBytes bytes;
  std::size_t rows;
  std::size_t steps;            // whole ones
  std::size_t partial_columns;  // in one more step, if not 0
  std::size_t partial_bytes;
};

/// Asks for the weights that come kDistance bytes later in the order in which groups of kRows rows
/// are read. Hardware prefetchers stop at every page and lose half of the bandwidth on rows this
/// short.
template <class Format, std::size_t kRows>
class ReadAhead {
 public:
  /// For a reader that is about to read `step` of the group that starts with `row`.
  explicit ReadAhead(const Matrix<Format>& w, std::size_t row = 0, std::size_t step = 0)
      : stride_(w.bytes.stride), steps_(std::max<std::size_t>(w.steps, 1)) {
    constexpr std::size_t kDistance = 8192;
    step += kDistance / (kRows * Format::kBytes);
    step_ = step % steps_;
    row += step / steps_ * kRows;
    next_ = reinterpret_cast<std::uintptr_t>(w.bytes.data) + row * stride_;
  }

  /// Asks for row r of the group.
  HWY_INLINE void row(std::size_t r) const {
    hwy::Prefetch(reinterpret_cast<const void*>(next_ + r * stride_ + step_ * Format::kBytes));
  }

  /// The reader goes on to its next step.
  HWY_INLINE void advance() {
    if (++step_ == steps_) {
      step_ = 0;
      next_rows();
    }
  }

  /// The reader goes on to the same step of the next group.
  HWY_INLINE void next_rows() { next_ += kRows * stride_; }

 private:
  std::uintptr_t next_;  // a number: it runs past the end of the matrix
  std::size_t stride_;
  std::size_t steps_;
  std::size_t step_;
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
