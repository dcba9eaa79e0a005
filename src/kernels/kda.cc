// The gated delta rule.
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/kda.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/ops.h"
#include "kernels/scalar.h"
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "kernels/vectors-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

using scalar::kda_step;

#else

struct Step {
  const float* q;
  const float* k;
  const float* v;
  const float* decay;
  float beta;
  std::size_t dim;
};

/// kVectors vectors of value columns from `column` on, of which the last has `count` numbers: first
/// reads the state for S^T k, then updates it and reads it for S^T q. The columns of the state do
/// not know of each other, so a strip is small enough to be in the cache when it is read again.
template <std::size_t kVectors>
HWY_INLINE void step_columns(const Step& step, std::size_t column, std::size_t count, float* state,
                             float* out) {
  const FloatTag floats;
  const auto length = [count](std::size_t j) HWY_ATTR { return j + 1 < kVectors ? kLanes : count; };
  Floats sum[kVectors];
  for (std::size_t j = 0; j < kVectors; ++j) sum[j] = hn::Zero(floats);
  for (std::size_t d = 0; d < step.dim; ++d) {
    const Floats decay = hn::Set(floats, step.decay[d]);
    const Floats k = hn::Set(floats, step.k[d]);
    const float* row = state + d * step.dim + column;
    for (std::size_t j = 0; j < kVectors; ++j) {
      sum[j] = hn::MulAdd(hn::Mul(decay, load(row + j * kLanes, length(j))), k, sum[j]);
    }
  }
  Floats u[kVectors];
  for (std::size_t j = 0; j < kVectors; ++j) {
    const Floats v = load(step.v + column + j * kLanes, length(j));
    u[j] = hn::Mul(hn::Set(floats, step.beta), hn::Sub(v, sum[j]));
    sum[j] = hn::Zero(floats);
  }
  for (std::size_t d = 0; d < step.dim; ++d) {
    const Floats decay = hn::Set(floats, step.decay[d]);
    const Floats k = hn::Set(floats, step.k[d]);
    const Floats q = hn::Set(floats, step.q[d]);
    float* row = state + d * step.dim + column;
    for (std::size_t j = 0; j < kVectors; ++j) {
      const Floats decayed = hn::Mul(decay, load(row + j * kLanes, length(j)));
      const Floats updated = hn::MulAdd(k, u[j], decayed);
      store(updated, row + j * kLanes, length(j));
      sum[j] = hn::MulAdd(updated, q, sum[j]);
    }
  }
  for (std::size_t j = 0; j < kVectors; ++j) store(sum[j], out + column + j * kLanes, length(j));
}

void kda_step(float* state, const float* q, const float* k, const float* v, const float* decay,
              float beta, std::size_t dim, float* /*scratch*/, float* out) {
  constexpr std::size_t kStrip = kRegisters / 4;  // vectors: sums and deltas in half the registers
  const Step step{q, k, v, decay, beta, dim};
  std::size_t column = 0;
  for (; column + kStrip * kLanes <= dim; column += kStrip * kLanes) {
    step_columns<kStrip>(step, column, kLanes, state, out);
  }
  for (; column + kLanes <= dim; column += kLanes) {
    step_columns<1>(step, column, kLanes, state, out);
  }
  if (column < dim) step_columns<1>(step, column, dim - column, state, out);
}

#endif
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels {

HWY_EXPORT(kda_step);

void kda_step(float* state, const float* q, const float* k, const float* v, const float* decay,
              float beta, std::size_t dim, float* scratch, float* out) {
  HWY_DYNAMIC_DISPATCH(kda_step)(state, q, k, v, decay, beta, dim, scratch, out);
}

}  // namespace sluice::kernels
#endif  // HWY_ONCE
