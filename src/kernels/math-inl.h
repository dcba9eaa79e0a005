// Elementary functions on vectors, for any input: Highway's, with what they leave undefined (NaN,
// infinity, overflow) defined. Included once per target (foreach_target).

// NOLINTNEXTLINE(llvm-header-guard): Highway's per-target include guard
#if defined(SLUICE_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_MATH_INL_H_
#undef SLUICE_KERNELS_MATH_INL_H_
#else
#define SLUICE_KERNELS_MATH_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {

/// e^x: infinity from 88.73 on, NaN for NaN, and 0 where it would be subnormal (below -87.34): what
/// is multiplied with such a number would cost a hundred cycles and add nothing.
HWY_INLINE Floats exp_of(Floats x) {
  const FloatTag floats;
  const Floats lowest = hn::Set(floats, -87.33654f);
  const Floats highest = hn::Set(floats, 104.0f);  // what Exp() computes without overflow inside
  const Floats y = hn::Exp(floats, hn::Max(hn::Min(x, highest), lowest));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElseZero(hn::Ge(x, lowest), y));
}

/// 1 / (1 + e^-x), with e^-|x| so that nothing overflows and small results keep their precision (0
/// below 1.2e-38).
HWY_INLINE Floats sigmoid_of(Floats x) {
  const FloatTag floats;
  const Floats one = hn::Set(floats, 1.0f);
  const Floats e = exp_of(hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(floats)), e, one), hn::Add(one, e));
}

/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|).
HWY_INLINE Floats softplus_of(Floats x) {
  const FloatTag floats;
  const Floats e = exp_of(hn::Neg(hn::Abs(x)));
  return hn::Add(hn::Max(x, hn::Zero(floats)), hn::Log1p(floats, e));
}

/// cap * tanh(x / cap).
HWY_INLINE Floats capped(Floats x, float cap) {
  const FloatTag floats;
  const Floats limit = hn::Set(floats, cap);
  return hn::Mul(limit, hn::Tanh(floats, hn::Div(x, limit)));
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
