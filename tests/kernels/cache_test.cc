// Caches: rows are rounded as their format says, and attention reads them as they are kept.
#include <limits>

#include "kernels/cache.h"
#include "kernels/ops.h"
#include "kernels/scalar.h"
#include "kernels/support.h"

namespace sluice::kernels::test {
namespace {

constexpr WeightFormat kCacheFormats[] = {WeightFormat::f32, WeightFormat::bf16,
                                          WeightFormat::q8_0};

/// `count` rows as a cache keeps them, and what they read as.
struct Kept {
  Kept(WeightFormat as, const std::vector<float>& rows, std::size_t row_width)
      : format(as), width(row_width), count(rows.size() / row_width) {
    bytes.resize(count * row_bytes());
    std::vector<float> row(cached_width(format, width));
    for (std::size_t r = 0; r < count; ++r) {
      cache_row(format, rows.data() + r * width, width, bytes.data() + r * row_bytes());
      decode_row({format, bytes.data(), nullptr, count, row.size()}, r, row.data());
      read.insert(read.end(), row.begin(), row.begin() + static_cast<std::ptrdiff_t>(width));
    }
  }
  std::size_t row_bytes() const { return cached_row_bytes(format, width); }

  WeightFormat format;
  std::size_t width;
  std::size_t count;
  std::vector<std::byte> bytes;
  std::vector<float> read;
};

class Cache : public KernelTest {};

TEST_P(Cache, RowsAreRoundedToNearest) {
  const std::vector<float> rows = Random(1).numbers(7 * 80, -3.0f, 3.0f);
  const Kept exact(WeightFormat::f32, rows, 80);
  EXPECT_TRUE(same_bits(exact.read, rows));
  const Kept halves(WeightFormat::bf16, rows, 80);
  const Kept codes(WeightFormat::q8_0, rows, 80);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_NEAR(halves.read[i], rows[i], std::fabs(rows[i]) / 256) << i;
    EXPECT_EQ(bits_of(halves.read[i]) & 0xFFFF, 0u);
    EXPECT_NEAR(codes.read[i], rows[i], 3.0f / 127 * 0.51f) << i;
  }
  const std::vector<float> ties = {1.00390625f, 1.01171875f, -1.00390625f, 0.0f};  // half a step
  const Kept even(WeightFormat::bf16, ties, 4);
  EXPECT_EQ(even.read, (std::vector<float>{1.0f, 1.015625f, -1.0f, 0.0f}));
}

TEST_P(Cache, ABlockHasItsLargestMagnitudeAsCode127) {
  std::vector<float> row(64, 0.25f);
  row[5] = -127.0f;  // a scale of one
  row[32] = 0.0625f * 127;
  const Kept kept(WeightFormat::q8_0, row, 64);
  EXPECT_EQ(kept.read[5], -127.0f);
  EXPECT_EQ(kept.read[0], 0.0f);
  EXPECT_EQ(kept.read[32], 0.0625f * 127);
  EXPECT_EQ(kept.read[33], 0.25f);
  const Kept nothing(WeightFormat::q8_0, std::vector<float>(32, 0.0f), 32);
  EXPECT_EQ(nothing.read, std::vector<float>(32, 0.0f));
}

TEST_P(Cache, NumbersTooSmallForAScaleReadAsNothing) {
  std::vector<float> row(32, 0.0f);
  row[7] = 1e-38f;
  row[9] = -1e-39f;
  const Kept kept(WeightFormat::q8_0, row, 32);
  EXPECT_EQ(kept.read, std::vector<float>(32, 0.0f));
}

TEST_P(Cache, WhatIsNotFiniteDoesNotReadAsANumber) {
  for (const float bad : {std::numeric_limits<float>::infinity(), NAN, 3e38f}) {
    std::vector<float> row(32, 1.0f);
    row[3] = bad;
    const Kept kept(WeightFormat::q8_0, row, 32);
    EXPECT_TRUE(std::isnan(kept.read[3])) << bad;
  }
  const Kept nan(WeightFormat::bf16, {NAN, 1.0f}, 2);
  EXPECT_TRUE(std::isnan(nan.read[0]));
}

TEST_P(Cache, AttentionHasTheBitsOfAttentionOverWhatTheRowsReadAs) {
  constexpr std::size_t kHeads = 7;
  for (const WeightFormat format : kCacheFormats) {
    for (const std::size_t width : {8u, 16u, 33u, 64u, 576u}) {
      for (const std::size_t count : {1u, 5u, 70u}) {
        const std::vector<float> queries = Random(2).numbers(kHeads * width);
        const Kept keys(format, Random(3).numbers(count * width), width);
        const Kept values(format, Random(4).numbers(count * width), width);
        const CachedRows seen = {
            format, keys.bytes.data(), values.bytes.data(), count, 0, count, width, width, width};
        std::vector<float> scores(kHeads * count);
        std::vector<float> expected(kHeads * width);
        attention_heads(queries.data(), kHeads,
                        {keys.read.data(), values.read.data(), count, width, width, width}, 0.3f,
                        scores.data(), expected.data());
        std::vector<float> found(kHeads * width);
        attention_over_cache(queries.data(), kHeads, seen, 0.3f, scores.data(), found.data());
        EXPECT_TRUE(same_bits(found, expected)) << width << " " << count;
        scalar::attention_over_cache(queries.data(), kHeads, seen, 0.3f, scores.data(),
                                     found.data());
        for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-5);
      }
    }
  }
}

TEST_P(Cache, BitsDoNotDependOnWhereTheRingBegins) {
  constexpr std::size_t kRows = 150;
  constexpr std::size_t kWidth = 48;
  constexpr std::size_t kHeads = 5;
  const std::vector<float> rows = Random(5).numbers(kRows * kWidth);
  const std::vector<float> queries = Random(6).numbers(kHeads * kWidth);
  for (const WeightFormat format : kCacheFormats) {
    for (const std::size_t count : {3u, 100u, 150u}) {
      std::vector<float> scores(kHeads * count);
      std::vector<float> expected;
      for (const std::size_t first : {0u, 1u, 77u, 149u}) {
        std::vector<float> ring(rows.size());
        for (std::size_t r = 0; r < kRows; ++r) {
          std::copy_n(rows.data() + r * kWidth, kWidth, ring.data() + (first + r) % kRows * kWidth);
        }
        const Kept kept(format, ring, kWidth);
        std::vector<float> out(kHeads * kWidth);
        attention_over_cache(queries.data(), kHeads,
                             {format, kept.bytes.data(), kept.bytes.data(), kRows, first, count,
                              kWidth, kWidth, kWidth},
                             0.2f, scores.data(), out.data());
        if (first == 0) expected = out;
        EXPECT_TRUE(same_bits(out, expected)) << count << " from " << first;
      }
    }
  }
}

SLUICE_ON_ALL_TARGETS(Cache);

}  // namespace
}  // namespace sluice::kernels::test
