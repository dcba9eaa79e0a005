// Attention over the latent cache: right, and the same bits for one head or many.
#include <algorithm>

#include "kernels/ops.h"
#include "kernels/scalar.h"
#include "kernels/support.h"

namespace sluice::kernels::test {
namespace {

struct Shape {
  std::size_t count, width, value_width;
};
constexpr Shape kShapes[] = {{1, 576, 512}, {2, 48, 32},  {5, 48, 40},     {63, 80, 64},
                             {64, 48, 33},  {65, 37, 20}, {200, 576, 512}, {131, 16, 16}};
constexpr std::size_t kMostHeads = 7;

class LatentAttention : public KernelTest {};

TEST_P(LatentAttention, IsWithinRoundingOfFloat64) {
  for (const Shape& shape : kShapes) {
    const auto [count, width, value_width] = shape;
    const std::vector<float> query = Random(1).numbers(width);
    const std::vector<float> cache = Random(2).numbers(count * width, -2.0f, 2.0f);
    constexpr float kScale = 0.4f;
    std::vector<double> score(count);
    double total = 0.0;
    for (std::size_t s = 0; s < count; ++s) {
      for (std::size_t i = 0; i < width; ++i) {
        score[s] += static_cast<double>(query[i]) * cache[s * width + i] * kScale;
      }
    }
    const double largest = *std::max_element(score.begin(), score.end());
    for (double& s : score) total += s = std::exp(s - largest);
    std::vector<float> scores(count);
    std::vector<float> out(value_width + 1, -9.0f);
    latent_attention(query.data(), cache.data(), count, width, value_width, kScale, scores.data(),
                     out.data());
    std::vector<float> twin(value_width);
    scalar::latent_attention(query.data(), cache.data(), count, width, value_width, kScale,
                             scores.data(), twin.data());
    EXPECT_EQ(out[value_width], -9.0f);
    for (std::size_t i = 0; i < value_width; ++i) {
      double exact = 0.0;
      for (std::size_t s = 0; s < count; ++s) exact += score[s] / total * cache[s * width + i];
      EXPECT_NEAR(out[i], exact, 2e-5) << count << " positions of " << width;
      EXPECT_NEAR(twin[i], exact, 4e-5);
    }
  }
}

TEST_P(LatentAttention, ManyHeadsHaveTheBitsOfOneCallEach) {
  for (const Shape& shape : kShapes) {
    const auto [count, width, value_width] = shape;
    const std::vector<float> queries = Random(3).numbers(kMostHeads * width);
    const std::vector<float> cache = Random(4).numbers(count * width);
    std::vector<float> scores(kMostHeads * count);
    std::vector<float> alone(kMostHeads * value_width);
    for (std::size_t h = 0; h < kMostHeads; ++h) {
      latent_attention(queries.data() + h * width, cache.data(), count, width, value_width, 0.3f,
                       scores.data(), alone.data() + h * value_width);
    }
    for (std::size_t heads = 1; heads <= kMostHeads; ++heads) {
      std::vector<float> together(heads * value_width + 1, -9.0f);
      latent_attention_heads(queries.data(), heads, cache.data(), count, width, value_width, 0.3f,
                             scores.data(), together.data());
      EXPECT_TRUE(same_bits(together.data(), alone.data(), heads * value_width));
      EXPECT_EQ(together.back(), -9.0f);
    }
  }
}

TEST_P(LatentAttention, BitsDoNotDependOnAlignment) {
  const std::vector<float> query = Random(5).numbers(48);
  const std::vector<float> cache = Random(6).numbers(70 * 48);
  std::vector<float> scores(70);
  std::vector<float> expected(40);
  latent_attention(query.data(), cache.data(), 70, 48, 40, 0.2f, scores.data(), expected.data());
  for (std::size_t offset = 0; offset < 16; ++offset) {
    AlignedFloats moved(70 * 48 + 16);
    std::copy(cache.begin(), cache.end(), moved.data() + offset);
    std::vector<float> out(40);
    latent_attention(query.data(), moved.data() + offset, 70, 48, 40, 0.2f, scores.data(),
                     out.data());
    EXPECT_TRUE(same_bits(out, expected));
  }
}

TEST_P(LatentAttention, OnePositionReturnsItsValue) {
  const std::vector<float> query = Random(7).numbers(48, -100.0f, 100.0f);
  const std::vector<float> cache = Random(8).numbers(48, -100.0f, 100.0f);
  float score = 0.0f;
  std::vector<float> out(32);
  latent_attention(query.data(), cache.data(), 1, 48, 32, 1.0f, &score, out.data());
  EXPECT_TRUE(same_bits(out.data(), cache.data(), 32));
}

SLUICE_ON_ALL_TARGETS(LatentAttention);

}  // namespace
}  // namespace sluice::kernels::test
