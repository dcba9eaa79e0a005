// Attention over a cache.
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/ops.h"
#include "kernels/scalar.h"
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "kernels/vectors-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

using scalar::attention_heads;

#else

constexpr std::size_t kHeadsAtOnce = 4;
constexpr std::size_t kRowsAtOnce = kRegisters / 8;
constexpr std::size_t kStrip = kRegisters / 8;  // vectors of values
constexpr std::size_t kBlockRows = 64;          // of the cache: K3's are 147 KB

/// Cache rows and what is asked of them; all heads see the same rows.
struct Block {
  const float* cache;
  std::size_t rows;
  std::size_t width;
  std::size_t value_width;
  std::size_t score_stride;  // floats from one head's scores to the next's
};

/// scores of kHeads heads and kRows cache rows: one accumulator each, whatever the numbers are.
template <std::size_t kHeads, std::size_t kRows>
HWY_INLINE void score_tile(const Block& block, std::size_t row, const float* queries, float scale,
                           float* scores) {
  const FloatTag floats;
  const float* cache = block.cache + row * block.width;
  Floats sum[kRows][kHeads];
  for (auto& row_sums : sum) {
    for (Floats& s : row_sums) s = hn::Zero(floats);
  }
  for_each_vector(block.width, [&](std::size_t i, std::size_t count) HWY_ATTR {
    Floats query[kHeads];
    for (std::size_t h = 0; h < kHeads; ++h) query[h] = load(queries + h * block.width + i, count);
    for (std::size_t r = 0; r < kRows; ++r) {
      const Floats key = load(cache + r * block.width + i, count);
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

template <std::size_t kHeads>
HWY_INLINE void score_block(const Block& block, const float* queries, float scale, float* scores) {
  std::size_t row = 0;
  for (; row + kRowsAtOnce <= block.rows; row += kRowsAtOnce) {
    score_tile<kHeads, kRowsAtOnce>(block, row, queries, scale, scores);
  }
  for (; row < block.rows; ++row) score_tile<kHeads, 1>(block, row, queries, scale, scores);
}

/// out += probability times value, row after row, for kHeads heads and kVectors vectors of values
/// from `column` on, of which the last has `count` numbers.
template <std::size_t kHeads, std::size_t kVectors>
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
      value[j] = load(block.cache + row * block.width + column + j * kLanes, length(j));
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

template <std::size_t kHeads>
HWY_INLINE void mix_block(const Block& block, const float* probabilities, float* out) {
  std::size_t column = 0;
  for (; column + kStrip * kLanes <= block.value_width; column += kStrip * kLanes) {
    mix_strip<kHeads, kStrip>(block, column, kLanes, probabilities, out);
  }
  for (; column + kLanes <= block.value_width; column += kLanes) {
    mix_strip<kHeads, 1>(block, column, kLanes, probabilities, out);
  }
  if (column < block.value_width) {
    mix_strip<kHeads, 1>(block, column, block.value_width - column, probabilities, out);
  }
}

void attention_heads(const float* queries, std::size_t heads, const KeysAndValues& seen,
                     float scale, float* scores, float* out) {
  const std::size_t count = seen.count;
  const std::size_t value_width = seen.value_width;
  const std::size_t in_groups = heads - heads % kHeadsAtOnce;
  Block block{seen.keys, 0, seen.key_width, value_width, count};
  for (std::size_t row = 0; row < count; row += block.rows) {
    block.cache = seen.keys + row * seen.key_width;
    block.rows = std::min(kBlockRows, count - row);
    for (std::size_t h = 0; h < in_groups; h += kHeadsAtOnce) {
      score_block<kHeadsAtOnce>(block, queries + h * seen.key_width, scale,
                                scores + h * count + row);
    }
    for (std::size_t h = in_groups; h < heads; ++h) {
      score_block<1>(block, queries + h * seen.key_width, scale, scores + h * count + row);
    }
  }
  for (std::size_t h = 0; h < heads; ++h) softmax(scores + h * count, count);
  std::fill_n(out, heads * value_width, 0.0f);
  block.width = seen.value_stride;
  for (std::size_t row = 0; row < count; row += block.rows) {
    block.cache = seen.values + row * seen.value_stride;
    block.rows = std::min(kBlockRows, count - row);
    for (std::size_t h = 0; h < in_groups; h += kHeadsAtOnce) {
      mix_block<kHeadsAtOnce>(block, scores + h * count + row, out + h * value_width);
    }
    for (std::size_t h = in_groups; h < heads; ++h) {
      mix_block<1>(block, scores + h * count + row, out + h * value_width);
    }
  }
}

#endif
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels {

HWY_EXPORT(attention_heads);

void attention_heads(const float* queries, std::size_t heads, const KeysAndValues& seen,
                     float scale, float* scores, float* out) {
  HWY_DYNAMIC_DISPATCH(attention_heads)(queries, heads, seen, scale, scores, out);
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
