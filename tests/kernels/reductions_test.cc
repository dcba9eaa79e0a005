// Norms, softmax, maxima and the mixing of residual sources.
#include <algorithm>

#include "kernels/ops.h"
#include "kernels/scalar.h"
#include "kernels/support.h"

namespace sluice::kernels::test {
namespace {

constexpr std::size_t kSizes[] = {1, 2, 7, 15, 16, 17, 32, 40, 63, 64, 65, 96, 257, 7168};

class Reductions : public KernelTest {};

TEST_P(Reductions, DotIsWithinRoundingOfFloat64) {
  for (const std::size_t n : kSizes) {
    const std::vector<float> a = Random(1).numbers(n);
    const std::vector<float> b = Random(2).numbers(n);
    double exact = 0.0;
    double magnitude = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      exact += static_cast<double>(a[i]) * b[i];
      magnitude += std::fabs(static_cast<double>(a[i]) * b[i]);
    }
    EXPECT_NEAR(dot(a.data(), b.data(), n), exact, 1e-6 * magnitude);
    EXPECT_NEAR(scalar::dot(a.data(), b.data(), n), exact, 4e-6 * magnitude);
  }
}

TEST_P(Reductions, RmsNormDividesByTheRootOfTheMean) {
  for (const std::size_t n : kSizes) {
    const std::vector<float> x = Random(3).numbers(n, -4.0f, 5.0f);
    const std::vector<float> weight = Random(4).numbers(n, 0.5f, 1.5f);
    double squares = 0.0;
    for (const float v : x) squares += static_cast<double>(v) * v;
    const double root = std::sqrt(squares / static_cast<double>(n) + 1e-5f);
    std::vector<float> y = x;
    rms_norm(y.data(), weight.data(), n, 1e-5f, y.data());  // in place
    std::vector<float> twin(n);
    scalar::rms_norm(x.data(), weight.data(), n, 1e-5f, twin.data());
    for (std::size_t i = 0; i < n; ++i) {
      const double exact = weight[i] * x[i] / root;
      EXPECT_NEAR(y[i], exact, 1e-6 * std::fabs(exact));
      EXPECT_NEAR(twin[i], exact, 4e-6 * std::fabs(exact));
    }
  }
}

TEST_P(Reductions, NormsOfZerosAreZerosAndEpsilonIsInsideTheRoot) {
  std::vector<float> x(50, 0.0f);
  const std::vector<float> weight(50, 2.0f);
  std::vector<float> y(50, 1.0f);
  rms_norm(x.data(), weight.data(), 50, 1e-5f, y.data());
  for (const float v : y) EXPECT_EQ(v, 0.0f);
  x.assign(50, 1e-4f);  // mean of squares 1e-8
  rms_norm(x.data(), weight.data(), 50, 3e-8f, y.data());
  for (const float v : y) EXPECT_NEAR(v, 2 * 1e-4 / std::sqrt(4e-8), 1e-6);
}

TEST_P(Reductions, L2NormDividesByTheRootOfTheSum) {
  for (const std::size_t n : kSizes) {
    const std::vector<float> x = Random(5).numbers(n, -4.0f, 5.0f);
    double squares = 0.0;
    for (const float v : x) squares += static_cast<double>(v) * v;
    std::vector<float> y = x;
    l2_norm(y.data(), n, 1e-6f, 0.25f, y.data());
    std::vector<float> twin(n);
    scalar::l2_norm(x.data(), n, 1e-6f, 0.25f, twin.data());
    for (std::size_t i = 0; i < n; ++i) {
      const double exact = 0.25 * x[i] / std::sqrt(squares + 1e-6f);
      EXPECT_NEAR(y[i], exact, 1e-6 * std::fabs(exact));
      EXPECT_NEAR(twin[i], exact, 4e-6 * std::fabs(exact));
    }
  }
}

TEST_P(Reductions, SoftmaxSumsToOne) {
  for (const std::size_t n : kSizes) {
    const std::vector<float> x = Random(6).numbers(n, -12.0f, 12.0f);
    double total = 0.0;
    for (const float v : x) total += std::exp(static_cast<double>(v));
    std::vector<float> y = x;
    softmax(y.data(), n);
    std::vector<float> twin = x;
    scalar::softmax(twin.data(), n);
    for (std::size_t i = 0; i < n; ++i) {
      const double exact = std::exp(static_cast<double>(x[i])) / total;
      EXPECT_NEAR(y[i], exact, 6e-6 * exact);
      EXPECT_NEAR(twin[i], exact, 6e-6 * exact);
    }
  }
}

TEST_P(Reductions, SoftmaxOfExtremes) {
  for (const std::size_t n : {1u, 5u, 16u, 21u}) {
    std::vector<float> x(n, -3e38f);
    softmax(x.data(), n);
    for (const float v : x) EXPECT_FLOAT_EQ(v, 1.0f / static_cast<float>(n));
    x.assign(n, -kInfinity);
    x[n - 1] = 1e30f;
    softmax(x.data(), n);
    for (std::size_t i = 0; i + 1 < n; ++i) EXPECT_EQ(x[i], 0.0f);
    EXPECT_EQ(x[n - 1], 1.0f);
    x[n / 2] = NAN;
    softmax(x.data(), n);
    EXPECT_FALSE(all_finite(x.data(), n));
  }
}

TEST_P(Reductions, ASinkTakesItsShareOfASoftmaxWhateverItsSize) {
  for (const std::size_t n : {1u, 7u, 64u, 300u}) {
    for (const float sink : {-200.0f, -3.0f, 0.0f, 5.0f, 200.0f}) {
      const std::vector<float> x = Random(9).numbers(n, -6.0f, 6.0f);
      double total = std::exp(static_cast<double>(sink));
      for (const float each : x) total += std::exp(static_cast<double>(each));
      std::vector<float> y = x;
      softmax_with_sink(y.data(), n, sink);
      std::vector<float> twin = x;
      scalar::softmax_with_sink(twin.data(), n, sink);
      for (std::size_t i = 0; i < n; ++i) {
        const double exact = std::exp(static_cast<double>(x[i])) / total;
        EXPECT_NEAR(y[i], exact, 3e-6 * exact + 1e-38) << n << " " << sink;
        EXPECT_NEAR(twin[i], exact, 3e-6 * exact + 1e-38) << n << " " << sink;
      }
    }
  }
}

TEST_P(Reductions, AllFiniteFindsOneBadNumberAnywhere) {
  for (const std::size_t n : {1u, 15u, 16u, 17u, 40u, 70u}) {
    std::vector<float> x(n, 3e38f);
    EXPECT_TRUE(all_finite(x.data(), n));
    for (std::size_t i = 0; i < n; ++i) {
      for (const float bad : {NAN, -NAN, kInfinity, -kInfinity}) {
        x[i] = bad;
        EXPECT_FALSE(all_finite(x.data(), n));
        EXPECT_FALSE(scalar::all_finite(x.data(), n));
      }
      x[i] = -3e38f;
    }
  }
  EXPECT_TRUE(all_finite(nullptr, 0));
}

TEST_P(Reductions, ArgmaxTakesTheLowestIndexOnTies) {
  for (const std::size_t n : {1u, 2u, 16u, 17u, 50u, 1000u}) {
    std::vector<float> x(n, -7.0f);
    EXPECT_EQ(argmax(x.data(), n), 0u);
    for (std::size_t at = 0; at < n; at += n / 16 + 1) {
      x[at] = -2.0f;
      x[n - 1] = -2.0f;  // a tie later on
      EXPECT_EQ(argmax(x.data(), n), at);
      EXPECT_EQ(scalar::argmax(x.data(), n), at);
      x[at] = -7.0f;
      x[n - 1] = -7.0f;
    }
  }
  const float zeros[] = {-1.0f, -0.0f, 0.0f};
  EXPECT_EQ(argmax(zeros, 3), 1u);
  const float infinities[] = {-kInfinity, -kInfinity};
  EXPECT_EQ(argmax(infinities, 2), 0u);
  const float nans[] = {NAN, NAN, NAN};
  EXPECT_LT(argmax(nans, 3), 3u);
}

TEST_P(Reductions, AttentionResidualMixesRawSourcesByTheirNormalisedScores) {
  for (const std::size_t n : {7u, 96u, 160u, 7168u}) {
    for (const std::size_t count : {1u, 2u, 9u}) {
      Random random(7);
      std::vector<std::vector<float>> sources;
      std::vector<const float*> pointers;
      for (std::size_t s = 0; s < count; ++s) {
        const auto size = static_cast<float>(s + 1);
        sources.push_back(random.numbers(n, -size, 2 * size));
      }
      for (const auto& source : sources) pointers.push_back(source.data());
      const std::vector<float> direction = random.numbers(n, -0.02f, 0.03f);
      std::vector<double> score(count);
      for (std::size_t s = 0; s < count; ++s) {
        double squares = 0.0;
        double product = 0.0;
        for (std::size_t i = 0; i < n; ++i) {
          squares += static_cast<double>(sources[s][i]) * sources[s][i];
          product += static_cast<double>(sources[s][i]) * direction[i];
        }
        score[s] = product / std::sqrt(squares / static_cast<double>(n) + 1e-5);
      }
      double total = 0.0;
      for (const double s : score) total += std::exp(s - score[0]);
      std::vector<float> out(n);
      attention_residual(pointers, direction.data(), n, 1e-5f, out.data());
      std::vector<float> twin(n);
      scalar::attention_residual(pointers, direction.data(), n, 1e-5f, twin.data());
      for (std::size_t i = 0; i < n; ++i) {
        double exact = 0.0;
        for (std::size_t s = 0; s < count; ++s) {
          exact += std::exp(score[s] - score[0]) / total * sources[s][i];
        }
        EXPECT_NEAR(out[i], exact, 3e-4);
        EXPECT_NEAR(twin[i], exact, 3e-4);
      }
    }
  }
}

TEST_P(Reductions, AttentionResidualTakesAsManySourcesAsAConfigurationMayHave) {
  const std::vector<float> source = Random(8).numbers(33);
  const std::vector<const float*> pointers(kMostResidualSources, source.data());
  const std::vector<float> direction = Random(9).numbers(33);
  std::vector<float> out(33);
  attention_residual(pointers, direction.data(), 33, 1e-5f, out.data());
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], source[i], 1e-5f);
}

TEST_P(Reductions, AttentionResidualOfOneSourceIsThatSource) {
  const std::vector<float> source = Random(8).numbers(33);
  const float* pointer = source.data();
  const std::vector<float> direction = Random(9).numbers(33);
  std::vector<float> out(33);
  attention_residual({&pointer, 1}, direction.data(), 33, 1e-5f, out.data());
  EXPECT_EQ(out, source);
}

TEST_P(Reductions, BitsDoNotDependOnAlignment) {
  const std::vector<float> x = Random(10).numbers(300);
  for (std::size_t offset = 0; offset < 16; ++offset) {
    AlignedFloats moved(300 + 16);
    std::copy(x.begin(), x.end(), moved.data() + offset);
    EXPECT_EQ(dot(moved.data() + offset, moved.data() + offset, 300), dot(x.data(), x.data(), 300));
    std::vector<float> expected = x;
    softmax(expected.data(), 300);
    softmax(moved.data() + offset, 300);
    EXPECT_TRUE(same_bits(moved.data() + offset, expected.data(), 300));
  }
}

SLUICE_ON_ALL_TARGETS(Reductions);

}  // namespace
}  // namespace sluice::kernels::test
