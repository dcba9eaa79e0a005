// Loops over float arrays of any length. Included once per target (foreach_target).
//
// The tail of an array is computed as a whole vector of which a part is used, with the same
// operations, so that the result for an element never depends on where in the array it stands.

// NOLINTNEXTLINE(llvm-header-guard): Highway's per-target include guard
#if defined(SLUICE_KERNELS_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLUICE_KERNELS_VECTORS_INL_H_
#undef SLUICE_KERNELS_VECTORS_INL_H_
#else
#define SLUICE_KERNELS_VECTORS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using BitsTag = hn::RebindToUnsigned<FloatTag>;
using Floats = hn::Vec<FloatTag>;
inline constexpr std::size_t kLanes = hn::MaxLanes(FloatTag());
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
inline constexpr std::size_t kRegisters = 16;  // vector registers, for blocking
#else
inline constexpr std::size_t kRegisters = 32;
#endif

/// The first `count` < kLanes floats at `from`, then zeros.
HWY_INLINE Floats load_partial(const float* from, std::size_t count) {
  HWY_ALIGN float lanes[kLanes] = {};
  std::memcpy(lanes, from, count * sizeof(float));
  return hn::Load(FloatTag(), lanes);
}

HWY_INLINE void store_partial(Floats v, float* to, std::size_t count) {
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, FloatTag(), lanes);
  std::memcpy(to, lanes, count * sizeof(float));
}

/// Loads `count` floats: kLanes of them, or fewer and zeros.
HWY_INLINE Floats load(const float* from, std::size_t count) {
  return count == kLanes ? hn::LoadU(FloatTag(), from) : load_partial(from, count);
}

HWY_INLINE void store(Floats v, float* to, std::size_t count) {
  if (count == kLanes) {
    hn::StoreU(v, FloatTag(), to);
  } else {
    store_partial(v, to, count);
  }
}

/// Calls visit(first, count) for the vectors of an array of n floats: count is kLanes, but for the
/// last may be less.
template <class Visit>
HWY_INLINE void for_each_vector(std::size_t n, Visit visit) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) visit(i, kLanes);
  if (i < n) visit(i, n - i);
}

/// Sum of term(first, count) over the vectors of an array of n floats, in four accumulators by
/// turns; lanes past `count` must be zero.
template <class Term>
HWY_INLINE float sum_of(std::size_t n, Term add_term) {
  const FloatTag floats;
  Floats sum0 = hn::Zero(floats);
  Floats sum1 = sum0;
  Floats sum2 = sum0;
  Floats sum3 = sum0;
  std::size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    sum0 = add_term(i, kLanes, sum0);
    sum1 = add_term(i + kLanes, kLanes, sum1);
    sum2 = add_term(i + 2 * kLanes, kLanes, sum2);
    sum3 = add_term(i + 3 * kLanes, kLanes, sum3);
  }
  for (; i + kLanes <= n; i += kLanes) sum0 = add_term(i, kLanes, sum0);
  if (i < n) sum1 = add_term(i, n - i, sum1);
  return hn::GetLane(hn::SumOfLanes(floats, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
}

HWY_INLINE float sum_of_products(const float* a, const float* b, std::size_t n) {
  return sum_of(n, [a, b](std::size_t i, std::size_t count, Floats sum) HWY_ATTR {
    return hn::MulAdd(load(a + i, count), load(b + i, count), sum);
  });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
