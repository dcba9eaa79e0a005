// Activations, gates and convolution: right for every float, and the same bits wherever an element
// stands.
#include <functional>

#include "kernels/ops.h"
#include "kernels/scalar.h"
#include "kernels/support.h"

namespace sluice::kernels::test {
namespace {

double exact_sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// Every exponent and sign with some mantissas, zeros, and what networks compute with.
std::vector<float> all_sizes() {
  Random random(1);
  std::vector<float> out = {0.0f, -0.0f, 1.0f, -1.0f, 1e30f, -1e30f, 3e38f, -3e38f, 88.0f, -88.0f};
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent) {
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t rest = random.bits();
      out.push_back(std::bit_cast<float>(exponent << 23 | (rest & 0x807FFFFFu)));
    }
  }
  for (int i = 0; i < 20000; ++i) out.push_back(random.number(-30.0f, 30.0f));
  return out;
}

class Elementwise : public KernelTest {};

TEST_P(Elementwise, SigmoidIsWithinThreeUlpOrZeroForSubnormals) {
  const std::vector<float> x = all_sizes();
  std::vector<float> y(x.size());
  std::vector<float> twin(x.size());
  sigmoid(x.data(), x.size(), y.data());
  scalar::sigmoid(x.data(), x.size(), twin.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = exact_sigmoid(x[i]);
    if (exact < 1.18e-38) {
      EXPECT_EQ(y[i], 0.0f) << x[i];
      EXPECT_EQ(twin[i], 0.0f) << x[i];
    } else {
      EXPECT_LE(ulps(y[i], exact), 3.0) << x[i];
      EXPECT_LE(ulps(twin[i], exact), 3.0) << x[i];
    }
  }
}

TEST_P(Elementwise, SigmoidOfExtremesIsFinite) {
  const float x[] = {-kInfinity, -1e30f, -104.0f, kInfinity, 1e30f, NAN, 0.0f};
  float y[7];
  sigmoid(x, 7, y);
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_LT(y[2], 1e-44f);
  EXPECT_EQ(y[3], 1.0f);
  EXPECT_EQ(y[4], 1.0f);
  EXPECT_TRUE(std::isnan(y[5]));
  EXPECT_EQ(y[6], 0.5f);
}

TEST_P(Elementwise, MultiplySigmoidIsTheProduct) {
  const std::vector<float> gate = all_sizes();
  const std::vector<float> start = Random(2).numbers(gate.size());
  std::vector<float> s(gate.size());
  sigmoid(gate.data(), gate.size(), s.data());
  std::vector<float> y = start;
  multiply_sigmoid(gate.data(), gate.size(), y.data());
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], start[i] * s[i]);
}

TEST_P(Elementwise, SituGluIsTheSpecsFormula) {
  const Glu kind{Glu::Kind::situ, 4.0f, 25.0f};
  const std::vector<float> gate = all_sizes();
  std::vector<float> up(gate.rbegin(), gate.rend());
  std::vector<float> y(gate.size());
  glu(kind, gate.data(), up.data(), gate.size(), y.data());
  std::vector<float> twin(gate.size());
  scalar::glu(kind, gate.data(), up.data(), gate.size(), twin.data());
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double g = gate[i];
    const double exact = 4 * std::tanh(g / 4) * exact_sigmoid(g) * 25 * std::tanh(up[i] / 25.0);
    // Relative also for tiny inputs, where tanh(x) is x. Sigmoids below 1.2e-38 are zero.
    const double lost = g < -87 ? 1.2e-36 : 1e-43;
    EXPECT_NEAR(y[i], exact, 2e-6 * std::fabs(exact) + lost) << g << " " << up[i];
    EXPECT_NEAR(twin[i], exact, 2e-6 * std::fabs(exact) + lost) << g << " " << up[i];
    EXPECT_LT(std::fabs(y[i]), 100.0001f);
  }
}

TEST_P(Elementwise, SituGluWithoutLinearCapTakesUpAsItIs) {
  const Glu kind{Glu::Kind::situ, 1.0f, 0.0f};
  const std::vector<float> gate = Random(3).numbers(500, -8.0f, 8.0f);
  const std::vector<float> up = Random(4).numbers(500, -1000.0f, 1000.0f);
  std::vector<float> y(500);
  glu(kind, gate.data(), up.data(), 500, y.data());
  for (std::size_t i = 0; i < 500; ++i) {
    const double exact = std::tanh(static_cast<double>(gate[i])) * exact_sigmoid(gate[i]) * up[i];
    EXPECT_NEAR(y[i], exact, 1e-6 * std::fabs(exact));
  }
}

TEST_P(Elementwise, SiluGluIsTheSpecsFormula) {
  const std::vector<float> gate = Random(5).numbers(3000, -60.0f, 60.0f);
  const std::vector<float> up = Random(6).numbers(3000, -10.0f, 10.0f);
  std::vector<float> y(3000);
  glu(Glu{}, gate.data(), up.data(), 3000, y.data());
  std::vector<float> twin(3000);
  scalar::glu(Glu{}, gate.data(), up.data(), 3000, twin.data());
  for (std::size_t i = 0; i < 3000; ++i) {
    const double exact = gate[i] * exact_sigmoid(gate[i]) * up[i];
    EXPECT_NEAR(y[i], exact, 1e-6 * std::fabs(exact));
    EXPECT_NEAR(twin[i], exact, 1e-6 * std::fabs(exact));
  }
}

TEST_P(Elementwise, GeluGluIsTheTanhFormula) {
  const std::vector<float> gate = all_sizes();
  const std::vector<float> up(gate.size(), -0.5f);
  std::vector<float> y(gate.size());
  glu(Glu{Glu::Kind::gelu}, gate.data(), up.data(), gate.size(), y.data());
  std::vector<float> twin(gate.size());
  scalar::glu(Glu{Glu::Kind::gelu}, gate.data(), up.data(), gate.size(), twin.data());
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double g = gate[i];
    const double z = std::sqrt(2 / 3.14159265358979323846) * (g + 0.044715 * g * g * g);
    const double exact = g * exact_sigmoid(2 * z) * -0.5;  // is (1 + tanh(z)) / 2
    // Far below zero the argument's rounding shows in the result's relative error.
    const double error = g < 0 ? 1e-4 * std::fabs(exact) + 1e-36 : 2e-6 * std::fabs(exact) + 1e-43;
    EXPECT_NEAR(y[i], exact, error) << g;
    EXPECT_NEAR(twin[i], exact, error) << g;
  }
}

TEST_P(Elementwise, LimitedGluIsGptOsssFormula) {
  Glu kind{Glu::Kind::limited, 1.702f};
  kind.limit = 7.0f;
  const std::vector<float> gate = Random(7).numbers(2000, -30.0f, 30.0f);
  const std::vector<float> up = Random(8).numbers(2000, -20.0f, 20.0f);
  std::vector<float> y(2000);
  glu(kind, gate.data(), up.data(), 2000, y.data());
  std::vector<float> twin(2000);
  scalar::glu(kind, gate.data(), up.data(), 2000, twin.data());
  for (std::size_t i = 0; i < 2000; ++i) {
    const double g = std::min(static_cast<double>(gate[i]), 7.0);
    const double u = std::clamp(static_cast<double>(up[i]), -7.0, 7.0);
    const double exact = (u + 1) * g * exact_sigmoid(1.702f * g);
    EXPECT_NEAR(y[i], exact, 3e-6 * std::fabs(exact) + 1e-6 * std::fabs(g)) << i;
    EXPECT_NEAR(twin[i], exact, 3e-6 * std::fabs(exact) + 1e-6 * std::fabs(g)) << i;
  }
}

TEST_P(Elementwise, GluOfExtremesDoesNotOverflowAndNaNPasses) {
  const float extremes[] = {1e30f, -1e30f, kInfinity, -kInfinity, 3e38f, -3e38f, 0.0f, -0.0f};
  for (const float g : extremes) {
    for (const float u : extremes) {
      float y = NAN;
      glu(Glu{Glu::Kind::situ, 4.0f, 25.0f}, &g, &u, 1, &y);
      EXPECT_TRUE(std::isfinite(y)) << g << " " << u;
    }
    float y = 0.0f;
    const float nan = NAN;
    glu(Glu{Glu::Kind::situ, 4.0f, 25.0f}, &nan, &g, 1, &y);
    EXPECT_TRUE(std::isnan(y));
    glu(Glu{Glu::Kind::situ, 4.0f, 25.0f}, &g, &nan, 1, &y);
    EXPECT_TRUE(std::isnan(y));
    for (const Glu kind : {Glu{}, Glu{Glu::Kind::gelu}, Glu{Glu::Kind::limited}}) {
      glu(kind, &nan, &g, 1, &y);
      EXPECT_TRUE(std::isnan(y));
    }
  }
  const float g = -1e30f;
  const float u = 7.0f;
  for (const Glu kind : {Glu{}, Glu{Glu::Kind::gelu}}) {
    float y = NAN;
    glu(kind, &g, &u, 1, &y);
    EXPECT_EQ(y, 0.0f);
  }
}

TEST_P(Elementwise, KdaDecayWithBoundIsTheSpecsFormula) {
  for (const float a_log : {-2.0f, 0.0f, 1.5f}) {
    std::vector<float> raw = Random(7).numbers(2000, -40.0f, 40.0f);
    raw.insert(raw.end(), {1e30f, -1e30f, 0.0f});
    std::vector<float> y(raw.size());
    std::vector<float> twin(raw.size());
    kda_decay(raw.data(), raw.size(), a_log, true, -5.0f, y.data());
    scalar::kda_decay(raw.data(), raw.size(), a_log, true, -5.0f, twin.data());
    for (std::size_t i = 0; i < raw.size(); ++i) {
      const double a = std::exp(static_cast<double>(a_log));
      const double exact = std::exp(-5.0 * exact_sigmoid(a * raw[i]));
      EXPECT_NEAR(y[i], exact, 2e-6 * exact) << raw[i];
      EXPECT_NEAR(twin[i], exact, 2e-6 * exact) << raw[i];
      EXPECT_LE(y[i], 1.0f);
    }
  }
}

TEST_P(Elementwise, KdaDecayWithoutBoundIsTheSpecsFormula) {
  for (const float a_log : {-2.0f, 0.0f, 1.5f}) {
    std::vector<float> raw = Random(8).numbers(2000, -40.0f, 12.0f);
    raw.insert(raw.end(), {-1e30f, 0.0f, 1e30f});
    std::vector<float> y(raw.size());
    std::vector<float> twin(raw.size());
    kda_decay(raw.data(), raw.size(), a_log, false, 0.0f, y.data());
    scalar::kda_decay(raw.data(), raw.size(), a_log, false, 0.0f, twin.data());
    for (std::size_t i = 0; i < raw.size(); ++i) {
      const double x = raw[i];
      const double softplus = std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
      const double exponent = std::exp(static_cast<double>(a_log)) * softplus;
      const double exact = std::exp(-exponent);
      // The exponent is rounded to float32, so the result's relative error grows with it.
      EXPECT_NEAR(y[i], exact, (1e-6 + 4e-7 * std::min(exponent, 104.0)) * exact + 1.2e-38) << x;
      EXPECT_NEAR(twin[i], exact, (1e-6 + 4e-7 * std::min(exponent, 104.0)) * exact + 1.2e-38) << x;
    }
  }
}

TEST_P(Elementwise, AdditionsAreExactOnes) {
  for (const std::size_t n : {1u, 3u, 16u, 37u, 200u}) {
    const std::vector<float> x = Random(9).numbers(n);
    const std::vector<float> start = Random(10).numbers(n);
    std::vector<float> y = start;
    add(x.data(), n, y.data());
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(y[i], start[i] + x[i]);
    y = start;
    add_scaled(0.37f, x.data(), n, y.data());
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(y[i], static_cast<double>(start[i]) + 0.37f * static_cast<double>(x[i]), 1.2e-7);
    }
  }
}

using OneArray = std::function<void(const float*, std::size_t, float*)>;

/// The bits of f's result for an element are those of calling f for that element alone.
void expect_position_does_not_matter(const char* name, const OneArray& f) {
  const std::vector<float> x = Random(11).numbers(100, -20.0f, 20.0f);
  for (const std::size_t n : {1u, 2u, 5u, 15u, 16u, 17u, 31u, 33u, 64u, 99u}) {
    std::vector<float> guard(n + 1, 42.0f);
    f(x.data(), n, guard.data());
    EXPECT_EQ(guard[n], 42.0f) << name << " wrote past its end";
    for (std::size_t i = 0; i < n; ++i) {
      float alone = 42.0f;
      f(x.data() + i, 1, &alone);
      EXPECT_EQ(bits_of(alone), bits_of(guard[i])) << name << " n " << n << " element " << i;
    }
  }
}

TEST_P(Elementwise, BitsDoNotDependOnWhereAnElementStands) {
  expect_position_does_not_matter("sigmoid", sigmoid);
  expect_position_does_not_matter("situ", [](const float* x, std::size_t n, float* out) {
    glu(Glu{Glu::Kind::situ, 4.0f, 25.0f}, x, x, n, out);
  });
  expect_position_does_not_matter(
      "silu", [](const float* x, std::size_t n, float* out) { glu(Glu{}, x, x, n, out); });
  expect_position_does_not_matter("gelu", [](const float* x, std::size_t n, float* out) {
    glu(Glu{Glu::Kind::gelu}, x, x, n, out);
  });
  expect_position_does_not_matter("decay", [](const float* x, std::size_t n, float* out) {
    kda_decay(x, n, 0.3f, true, -5.0f, out);
  });
  expect_position_does_not_matter("decay", [](const float* x, std::size_t n, float* out) {
    kda_decay(x, n, 0.3f, false, 0.0f, out);
  });
  expect_position_does_not_matter(
      "add", [](const float* x, std::size_t n, float* out) { add(x, n, out); });
  expect_position_does_not_matter(
      "add_scaled", [](const float* x, std::size_t n, float* out) { add_scaled(0.7f, x, n, out); });
  expect_position_does_not_matter("multiply_sigmoid", [](const float* x, std::size_t n, float* y) {
    multiply_sigmoid(x, n, y);
  });
}

TEST_P(Elementwise, InPlaceIsTheSame) {
  const std::vector<float> gate = Random(12).numbers(50, -9.0f, 9.0f);
  const std::vector<float> up = Random(13).numbers(50, -9.0f, 9.0f);
  std::vector<float> apart(50);
  for (const Glu kind : {Glu{Glu::Kind::situ, 4.0f, 25.0f}, Glu{}, Glu{Glu::Kind::gelu}}) {
    glu(kind, gate.data(), up.data(), 50, apart.data());
    std::vector<float> a = gate;
    glu(kind, a.data(), up.data(), 50, a.data());
    std::vector<float> b = up;
    glu(kind, gate.data(), b.data(), 50, b.data());
    EXPECT_TRUE(same_bits(a, apart) && same_bits(b, apart));
  }
  std::vector<float> a = gate;
  kda_decay(gate.data(), 50, 0.1f, true, -5.0f, apart.data());
  kda_decay(a.data(), 50, 0.1f, true, -5.0f, a.data());
  EXPECT_TRUE(same_bits(a, apart));
}

TEST_P(Elementwise, ShortConvolutionRemembersTapsMinusOnePositions) {
  for (const std::size_t channels : {1u, 12u, 16u, 45u, 96u}) {
    for (const std::size_t taps : {1u, 2u, 4u, 5u}) {
      constexpr std::size_t kPositions = 9;
      Random random(14);
      const std::vector<float> weights = random.numbers(channels * taps);
      const std::vector<float> x = random.numbers(kPositions * channels, -3.0f, 3.0f);
      std::vector<float> history((taps - 1) * channels, 0.0f);
      std::vector<float> twin_history = history;
      for (std::size_t t = 0; t < kPositions; ++t) {
        std::vector<float> out(x.begin() + static_cast<std::ptrdiff_t>(t * channels),
                               x.begin() + static_cast<std::ptrdiff_t>((t + 1) * channels));
        std::vector<float> twin(channels);
        scalar::short_convolution(twin_history.data(), weights.data(), channels, taps, out.data(),
                                  twin.data());
        short_convolution(history.data(), weights.data(), channels, taps, out.data(), out.data());
        EXPECT_TRUE(same_bits(history, twin_history));
        for (std::size_t c = 0; c < channels; ++c) {
          double sum = 0.0;
          for (std::size_t j = 0; j < taps && j <= t; ++j) {  // j positions ago
            sum +=
                static_cast<double>(weights[c * taps + taps - 1 - j]) * x[(t - j) * channels + c];
          }
          const double exact = sum * exact_sigmoid(sum);
          EXPECT_NEAR(out[c], exact, 4e-6) << channels << " channels, " << taps << " taps";
          EXPECT_NEAR(twin[c], exact, 4e-6);
        }
      }
    }
  }
}

SLUICE_ON_ALL_TARGETS(Elementwise);

}  // namespace
}  // namespace sluice::kernels::test
