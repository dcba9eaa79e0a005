// Attention over a cache.
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/cache.h"
#include "kernels/ops.h"
#include "kernels/scalar.h"
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "kernels/blocks-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

using scalar::attention_over_cache;

#else

constexpr std::size_t kHeadsAtOnce = 4;
constexpr std::size_t kRowsAtOnce = kRegisters / 8;
constexpr std::size_t kStrip = kRegisters / 8;  // vectors of values
constexpr std::size_t kBlockRows = 64;          // of the cache: K3's are 147 KB

/// `count` numbers of a cached row from `column` on, a multiple of kLanes; lanes past them hold
/// whatever follows.
struct FloatRow {
  static constexpr WeightFormat kFormat = WeightFormat::f32;
  static HWY_INLINE Floats load_at(const std::byte* row, std::size_t column, std::size_t count) {
    return load(reinterpret_cast<const float*>(row) + column, count);
  }
};

struct Bf16Row {
  static constexpr WeightFormat kFormat = WeightFormat::bf16;
  static HWY_INLINE Floats load_at(const std::byte* row, std::size_t column, std::size_t count) {
    const hn::Rebind<std::uint16_t, FloatTag> halves;
    const auto* const from = reinterpret_cast<const std::uint16_t*>(row) + column;
    HWY_ALIGN std::uint16_t padded[kLanes] = {};
    if (count < kLanes) std::memcpy(padded, from, count * sizeof(*from));
    const auto bits = count == kLanes ? hn::LoadU(halves, from) : hn::Load(halves, padded);
    return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(BitsTag(), bits)));
  }
};

/// The row is whole blocks, so a vector never ends past it.
struct Q8Row {
  static constexpr WeightFormat kFormat = WeightFormat::q8_0;
  static HWY_INLINE Floats load_at(const std::byte* row, std::size_t column, std::size_t) {
    constexpr WeightBlock kBlock = block_of(WeightFormat::q8_0);
    const hn::Rebind<std::int8_t, FloatTag> codes;
    const hn::RebindToSigned<FloatTag> ints;
    const auto* const block =
        reinterpret_cast<const std::uint8_t*>(row) + column / kBlock.columns * kBlock.bytes;
    const auto* const from =
        reinterpret_cast<const std::int8_t*>(block + 2 + column % kBlock.columns);
    const Floats numbers = hn::ConvertTo(FloatTag(), hn::PromoteTo(ints, hn::LoadU(codes, from)));
    return hn::Mul(half_everywhere(block), numbers);
  }
};

/// Cache rows and what is asked of them; all heads see the same rows.
struct Block {
  const std::byte* cache;
  std::size_t row_bytes;
  std::size_t rows;
  std::size_t width;
  std::size_t value_width;
  std::size_t score_stride;  // floats from one head's scores to the next's
};

/// scores of kHeads heads and kRows cache rows: one accumulator each, whatever the numbers are.
template <class Row, std::size_t kHeads, std::size_t kRows>
HWY_INLINE void score_tile(const Block& block, std::size_t row, const float* queries, float scale,
                           float* scores) {
  const FloatTag floats;
  const std::byte* cache = block.cache + row * block.row_bytes;
  Floats sum[kRows][kHeads];
  for (auto& row_sums : sum) {
    for (Floats& s : row_sums) s = hn::Zero(floats);
  }
  for_each_vector(block.width, [&](std::size_t i, std::size_t count) HWY_ATTR {
    Floats query[kHeads];
    for (std::size_t h = 0; h < kHeads; ++h) query[h] = load(queries + h * block.width + i, count);
    for (std::size_t r = 0; r < kRows; ++r) {
      const Floats key = Row::load_at(cache + r * block.row_bytes, i, count);
      for (std::size_t h = 0; h < kHeads; ++h) sum[r][h] = hn::MulAdd(key, query[h], sum[r][h]);
    }
  });
  for (std::size_t h = 0; h < kHeads; ++h) {
    for (std::size_t r = 0; r < kRows; ++r) {
      scores[h * block.score_stride + row + r] =
          hn::GetLane(hn::SumOfLanes(floats, sum[r][h])) * scale;
    }
  }
}

template <class Row, std::size_t kHeads>
HWY_INLINE void score_block(const Block& block, const float* queries, float scale, float* scores) {
  std::size_t row = 0;
  for (; row + kRowsAtOnce <= block.rows; row += kRowsAtOnce) {
    score_tile<Row, kHeads, kRowsAtOnce>(block, row, queries, scale, scores);
  }
  for (; row < block.rows; ++row) score_tile<Row, kHeads, 1>(block, row, queries, scale, scores);
}

/// out += probability times value, row after row, for kHeads heads and kVectors vectors of values
/// from `column` on, of which the last has `count` numbers.
template <class Row, std::size_t kHeads, std::size_t kVectors>
HWY_INLINE void mix_strip(const Block& block, std::size_t column, std::size_t count,
                          const float* probabilities, float* out) {
  const FloatTag floats;
  const auto length = [count](std::size_t j) HWY_ATTR { return j + 1 < kVectors ? kLanes : count; };
  Floats sum[kHeads][kVectors];
  for (std::size_t h = 0; h < kHeads; ++h) {
    for (std::size_t j = 0; j < kVectors; ++j) {
      sum[h][j] = load(out + h * block.value_width + column + j * kLanes, length(j));
    }
  }
  for (std::size_t row = 0; row < block.rows; ++row) {
    Floats value[kVectors];
    for (std::size_t j = 0; j < kVectors; ++j) {
      value[j] = Row::load_at(block.cache + row * block.row_bytes, column + j * kLanes, length(j));
    }
    for (std::size_t h = 0; h < kHeads; ++h) {
      const Floats p = hn::Set(floats, probabilities[h * block.score_stride + row]);
      for (std::size_t j = 0; j < kVectors; ++j) sum[h][j] = hn::MulAdd(p, value[j], sum[h][j]);
    }
  }
  for (std::size_t h = 0; h < kHeads; ++h) {
    for (std::size_t j = 0; j < kVectors; ++j) {
      store(sum[h][j], out + h * block.value_width + column + j * kLanes, length(j));
    }
  }
}

template <class Row, std::size_t kHeads>
HWY_INLINE void mix_block(const Block& block, const float* probabilities, float* out) {
  std::size_t column = 0;
  for (; column + kStrip * kLanes <= block.value_width; column += kStrip * kLanes) {
    mix_strip<Row, kHeads, kStrip>(block, column, kLanes, probabilities, out);
  }
  for (; column + kLanes <= block.value_width; column += kLanes) {
    mix_strip<Row, kHeads, 1>(block, column, kLanes, probabilities, out);
  }
  if (column < block.value_width) {
    mix_strip<Row, kHeads, 1>(block, column, block.value_width - column, probabilities, out);
  }
}

/// Calls visit(block, done) for pieces of the rows that are seen, the oldest first; `done` rows
/// were before it. No piece crosses the end of the ring.
template <class Visit>
HWY_INLINE void for_each_block(const CachedRows& seen, const std::byte* data, Block block,
                               Visit visit) {
  for (std::size_t done = 0; done < seen.count; done += block.rows) {
    const std::size_t at = (seen.first + done) % seen.rows;
    block.cache = data + at * block.row_bytes;
    block.rows = std::min({kBlockRows, seen.count - done, seen.rows - at});
    visit(block, done);
  }
}

template <class Row>
HWY_NOINLINE void attention_as(const float* queries, std::size_t heads, const CachedRows& seen,
                               float scale, float* scores, float* out) {
  const std::size_t count = seen.count;
  const std::size_t key_width = seen.key_width;
  const std::size_t value_width = seen.value_width;
  const std::size_t in_groups = heads - heads % kHeadsAtOnce;
  const std::size_t key_bytes = cached_row_bytes(Row::kFormat, key_width);
  const std::size_t value_bytes = cached_row_bytes(Row::kFormat, seen.value_stride);
  for_each_block(seen, seen.keys, {nullptr, key_bytes, 0, key_width, value_width, count},
                 [&](const Block& block, std::size_t done) HWY_ATTR {
                   std::size_t h = 0;
                   for (; h < in_groups; h += kHeadsAtOnce) {
                     score_block<Row, kHeadsAtOnce>(block, queries + h * key_width, scale,
                                                    scores + h * count + done);
                   }
                   for (; h < heads; ++h) {
                     score_block<Row, 1>(block, queries + h * key_width, scale,
                                         scores + h * count + done);
                   }
                 });
  for (std::size_t h = 0; h < heads; ++h) {
    if (seen.sinks != nullptr) {
      softmax_with_sink(scores + h * count, count, seen.sinks[h]);
    } else {
      softmax(scores + h * count, count);
    }
  }
  std::fill_n(out, heads * value_width, 0.0f);
  for_each_block(seen, seen.values, {nullptr, value_bytes, 0, key_width, value_width, count},
                 [&](const Block& block, std::size_t done) HWY_ATTR {
                   std::size_t h = 0;
                   for (; h < in_groups; h += kHeadsAtOnce) {
                     mix_block<Row, kHeadsAtOnce>(block, scores + h * count + done,
                                                  out + h * value_width);
                   }
                   for (; h < heads; ++h) {
                     mix_block<Row, 1>(block, scores + h * count + done, out + h * value_width);
                   }
                 });
}

void attention_over_cache(const float* queries, std::size_t heads, const CachedRows& seen,
                          float scale, float* scores, float* out) {
  switch (seen.format) {
    case WeightFormat::bf16:
      return attention_as<Bf16Row>(queries, heads, seen, scale, scores, out);
    case WeightFormat::q8_0:
      return attention_as<Q8Row>(queries, heads, seen, scale, scores, out);
    default:
      return attention_as<FloatRow>(queries, heads, seen, scale, scores, out);
  }
}

#endif
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels {

HWY_EXPORT(attention_over_cache);

void softmax_with_sink(float* x, std::size_t n, float sink) {
  const std::size_t largest = argmax(x, n);
  const float above = sink - x[largest];
  softmax(x, n);
  // The largest one's share is 1 over the sum of all, each divided by it.
  const float share = 1.0f / (1.0f + std::exp(above) * x[largest]);
  for (std::size_t i = 0; i < n; ++i) x[i] *= share;
}

void attention_over_cache(const float* queries, std::size_t heads, const CachedRows& seen,
                          float scale, float* scores, float* out) {
  SLUICE_CHECK(is_cache_format(seen.format));
  HWY_DYNAMIC_DISPATCH(attention_over_cache)(queries, heads, seen, scale, scores, out);
}

void attention_heads(const float* queries, std::size_t heads, const KeysAndValues& seen,
                     float scale, float* scores, float* out) {
  const CachedRows rows = {.format = WeightFormat::f32,
                           .keys = reinterpret_cast<const std::byte*>(seen.keys),
                           .values = reinterpret_cast<const std::byte*>(seen.values),
                           .rows = seen.count,
                           .first = 0,
                           .count = seen.count,
                           .key_width = seen.key_width,
                           .value_stride = seen.value_stride,
                           .value_width = seen.value_width};
  attention_over_cache(queries, heads, rows, scale, scores, out);
}

void latent_attention_heads(const float* queries, std::size_t heads, const float* cache,
                            std::size_t count, std::size_t width, std::size_t value_width,
                            float scale, float* scores, float* out) {
  attention_heads(queries, heads, {cache, cache, count, width, width, value_width}, scale, scores,
                  out);
}

void latent_attention(const float* query, const float* cache, std::size_t count, std::size_t width,
                      std::size_t value_width, float scale, float* scores, float* out) {
  latent_attention_heads(query, 1, cache, count, width, value_width, scale, scores, out);
}

}  // namespace sluice::kernels
#endif  // HWY_ONCE
