// Functions that look at a whole array: norms, softmax, maxima, mixing of residual sources.
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reductions.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/ops.h"
#include "kernels/scalar.h"
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "kernels/math-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

using scalar::all_finite;
using scalar::argmax;
using scalar::attention_residual;
using scalar::dot;
using scalar::l2_norm;
using scalar::rms_norm;
using scalar::softmax;

#else

float dot(const float* a, const float* b, std::size_t n) { return sum_of_products(a, b, n); }

void rms_norm(const float* x, const float* weight, std::size_t n, float epsilon, float* out) {
  const float mean = sum_of_products(x, x, n) / static_cast<float>(n);
  const Floats factor = hn::Set(FloatTag(), 1.0f / std::sqrt(mean + epsilon));
  for_each_vector(n, [=](std::size_t i, std::size_t count) HWY_ATTR {
    const Floats normed = hn::Mul(load(x + i, count), factor);
    store(hn::Mul(normed, load(weight + i, count)), out + i, count);
  });
}

void l2_norm(const float* x, std::size_t n, float epsilon, float scale, float* out) {
  const Floats factor = hn::Set(FloatTag(), scale / std::sqrt(sum_of_products(x, x, n) + epsilon));
  for_each_vector(n, [=](std::size_t i, std::size_t count)
                         HWY_ATTR { store(hn::Mul(load(x + i, count), factor), out + i, count); });
}

bool all_finite(const float* x, std::size_t n) {
  const BitsTag bits;
  auto largest = hn::Zero(bits);  // a maximum of magnitudes: no branch per vector
  for_each_vector(n, [&](std::size_t i, std::size_t count) HWY_ATTR {
    largest = hn::Max(largest, hn::BitCast(bits, hn::Abs(load(x + i, count))));
  });
  return hn::GetLane(hn::MaxOfLanes(bits, largest)) < 0x7F800000u;
}

float maximum(const float* x, std::size_t n) {
  const FloatTag floats;
  const Floats lowest = hn::Set(floats, -std::numeric_limits<float>::infinity());
  Floats largest = lowest;
  for_each_vector(n, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const auto used = hn::FirstN(floats, count);
    largest = hn::Max(largest, hn::IfThenElse(used, load(x + i, count), lowest));
  });
  return hn::GetLane(hn::MaxOfLanes(floats, largest));
}

std::size_t argmax(const float* x, std::size_t n) {
  const float largest = maximum(x, n);
  std::size_t i = 0;
  while (i + 1 < n && x[i] != largest) ++i;
  return x[i] == largest ? i : 0;  // 0: only with NaN
}

void softmax(float* x, std::size_t n) {
  const FloatTag floats;
  const Floats largest = hn::Set(floats, maximum(x, n));
  const float total = sum_of(n, [=](std::size_t i, std::size_t count, Floats sum) HWY_ATTR {
    const Floats e = exp_of(hn::Sub(load(x + i, count), largest));
    store(e, x + i, count);
    return hn::Add(sum, hn::IfThenElseZero(hn::FirstN(floats, count), e));
  });
  const Floats divisor = hn::Set(floats, total);
  for_each_vector(n, [=](std::size_t i, std::size_t count)
                         HWY_ATTR { store(hn::Div(load(x + i, count), divisor), x + i, count); });
}

void attention_residual(std::span<const float* const> sources, const float* direction,
                        std::size_t n, float epsilon, float* out) {
  SLUICE_CHECK(!sources.empty() && sources.size() <= kMostResidualSources);
  std::array<float, kMostResidualSources> weights;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const float mean = sum_of_products(sources[s], sources[s], n) / static_cast<float>(n);
    weights[s] = sum_of_products(sources[s], direction, n) / std::sqrt(mean + epsilon);
  }
  softmax(weights.data(), sources.size());
  for_each_vector(n, [&](std::size_t i, std::size_t count) HWY_ATTR {
    Floats sum = hn::Zero(FloatTag());
    for (std::size_t s = 0; s < sources.size(); ++s) {
      sum = hn::MulAdd(hn::Set(FloatTag(), weights[s]), load(sources[s] + i, count), sum);
    }
    store(sum, out + i, count);
  });
}

#endif
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels {

HWY_EXPORT(dot);
HWY_EXPORT(rms_norm);
HWY_EXPORT(l2_norm);
HWY_EXPORT(all_finite);
HWY_EXPORT(argmax);
HWY_EXPORT(softmax);
HWY_EXPORT(attention_residual);

float dot(const float* a, const float* b, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(dot)(a, b, n);
}

void rms_norm(const float* x, const float* weight, std::size_t n, float epsilon, float* out) {
  HWY_DYNAMIC_DISPATCH(rms_norm)(x, weight, n, epsilon, out);
}

void l2_norm(const float* x, std::size_t n, float epsilon, float scale, float* out) {
  HWY_DYNAMIC_DISPATCH(l2_norm)(x, n, epsilon, scale, out);
}

bool all_finite(const float* x, std::size_t n) { return HWY_DYNAMIC_DISPATCH(all_finite)(x, n); }

std::size_t argmax(const float* x, std::size_t n) { return HWY_DYNAMIC_DISPATCH(argmax)(x, n); }

void softmax(float* x, std::size_t n) { HWY_DYNAMIC_DISPATCH(softmax)(x, n); }

void attention_residual(std::span<const float* const> sources, const float* direction,
                        std::size_t n, float epsilon, float* out) {
  HWY_DYNAMIC_DISPATCH(attention_residual)(sources, direction, n, epsilon, out);
}

}  // namespace sluice::kernels
#endif  // HWY_ONCE
