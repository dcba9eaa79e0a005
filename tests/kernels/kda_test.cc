// The gated delta rule against float64, over one step and over ten thousand.
#include <algorithm>

#include "kernels/ops.h"
#include "kernels/scalar.h"
#include "kernels/support.h"

namespace sluice::kernels::test {
namespace {

/// What one step of one head reads, of the sizes that a model has.
struct Inputs {
  explicit Inputs(std::size_t dim, Random& random)
      : q(random.numbers(dim)),
        k(random.numbers(dim)),
        v(random.numbers(dim, -2.0f, 2.0f)),
        decay(random.numbers(dim, 0.8f, 1.0f)),
        beta(random.number(0.05f, 0.95f)) {
    scalar::l2_norm(q.data(), dim, 1e-6f, 1.0f / std::sqrt(static_cast<float>(dim)), q.data());
    scalar::l2_norm(k.data(), dim, 1e-6f, 1.0f, k.data());
  }
  std::vector<float> q, k, v, decay;
  float beta;
};

/// SPEC 6.4, line by line.
void exact_step(std::vector<double>& state, const Inputs& in, std::size_t dim,
                std::vector<double>& out) {
  std::vector<double> u(dim, 0.0);
  out.assign(dim, 0.0);
  for (std::size_t d = 0; d < dim; ++d) {
    for (std::size_t e = 0; e < dim; ++e) {
      state[d * dim + e] *= in.decay[d];
      u[e] += state[d * dim + e] * in.k[d];
    }
  }
  for (std::size_t e = 0; e < dim; ++e) {
    u[e] = static_cast<double>(in.beta) * (static_cast<double>(in.v[e]) - u[e]);
  }
  for (std::size_t d = 0; d < dim; ++d) {
    for (std::size_t e = 0; e < dim; ++e) {
      state[d * dim + e] += in.k[d] * u[e];
      out[e] += state[d * dim + e] * in.q[d];
    }
  }
}

double largest_difference(const std::vector<float>& a, const std::vector<double>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

class Kda : public KernelTest {};

TEST_P(Kda, StepsOfEveryWidthAreWithinRoundingOfFloat64) {
  for (const std::size_t dim : {1u, 3u, 16u, 20u, 24u, 32u, 48u, 64u, 100u, 128u, 160u}) {
    Random random(1);
    std::vector<float> state = random.numbers(dim * dim);
    std::vector<float> twin = state;
    std::vector<double> exact(state.begin(), state.end());
    std::vector<float> scratch(dim);
    std::vector<float> out(dim);
    std::vector<float> twin_out(dim);
    std::vector<double> exact_out;
    for (int t = 0; t < 5; ++t) {
      const Inputs in(dim, random);
      exact_step(exact, in, dim, exact_out);
      kda_step(state.data(), in.q.data(), in.k.data(), in.v.data(), in.decay.data(), in.beta, dim,
               scratch.data(), out.data());
      scalar::kda_step(twin.data(), in.q.data(), in.k.data(), in.v.data(), in.decay.data(), in.beta,
                       dim, scratch.data(), twin_out.data());
      EXPECT_LT(largest_difference(out, exact_out), 2e-6) << "dim " << dim;
      EXPECT_LT(largest_difference(state, exact), 4e-6) << "dim " << dim;
      EXPECT_LT(largest_difference(twin_out, exact_out), 2e-6) << "dim " << dim;
      EXPECT_LT(largest_difference(twin, exact), 4e-6) << "dim " << dim;
    }
  }
}

TEST_P(Kda, TenThousandStepsStayCloseToFloat64) {
  constexpr std::size_t kDim = 32;
  Random random(2);
  std::vector<float> state(kDim * kDim, 0.0f);
  std::vector<double> exact(kDim * kDim, 0.0);
  std::vector<float> scratch(kDim);
  std::vector<float> out(kDim);
  std::vector<double> exact_out;
  double worst = 0.0;
  double largest = 0.0;
  for (int t = 0; t < 10000; ++t) {
    Inputs in(kDim, random);
    // Some channels hardly forget, so that errors would have the time to add up.
    for (std::size_t d = 0; d < kDim; d += 2) in.decay[d] = 0.9999f;
    exact_step(exact, in, kDim, exact_out);
    kda_step(state.data(), in.q.data(), in.k.data(), in.v.data(), in.decay.data(), in.beta, kDim,
             scratch.data(), out.data());
    worst = std::max(worst, largest_difference(out, exact_out));
    for (const double v : exact_out) largest = std::max(largest, std::fabs(v));
  }
  EXPECT_GT(largest, 0.1);
  EXPECT_LT(worst, 1e-5 * largest);
  EXPECT_LT(largest_difference(state, exact), 1e-5);
}

TEST_P(Kda, ColumnsDoNotKnowOfEachOther) {
  // The first 20 value columns of a wide state are the same bits as if the rest held other numbers.
  constexpr std::size_t kDim = 128;
  Random random(3);
  std::vector<float> state = random.numbers(kDim * kDim);
  std::vector<float> other = state;
  Inputs in(kDim, random);
  Inputs changed = in;
  for (std::size_t e = 20; e < kDim; ++e) {
    changed.v[e] = 0.5f;
    for (std::size_t d = 0; d < kDim; ++d) other[d * kDim + e] = 3.0f;
  }
  std::vector<float> scratch(kDim);
  std::vector<float> out(kDim);
  std::vector<float> other_out(kDim);
  kda_step(state.data(), in.q.data(), in.k.data(), in.v.data(), in.decay.data(), in.beta, kDim,
           scratch.data(), out.data());
  kda_step(other.data(), in.q.data(), in.k.data(), changed.v.data(), in.decay.data(), in.beta, kDim,
           scratch.data(), other_out.data());
  EXPECT_TRUE(same_bits(out.data(), other_out.data(), 20));
  EXPECT_NE(out[40], other_out[40]);
}

TEST_P(Kda, NothingIsWrittenPastTheState) {
  for (const std::size_t dim : {3u, 20u, 48u}) {
    Random random(4);
    const Inputs in(dim, random);
    std::vector<float> state(dim * dim + 20, 0.0f);
    std::fill_n(state.end() - 20, 20, -9.0f);
    std::vector<float> scratch(dim);
    std::vector<float> out(dim + 1, -9.0f);
    kda_step(state.data(), in.q.data(), in.k.data(), in.v.data(), in.decay.data(), in.beta, dim,
             scratch.data(), out.data());
    EXPECT_EQ(out[dim], -9.0f);
    for (std::size_t i = dim * dim; i < state.size(); ++i) EXPECT_EQ(state[i], -9.0f);
  }
}

SLUICE_ON_ALL_TARGETS(Kda);

}  // namespace
}  // namespace sluice::kernels::test
