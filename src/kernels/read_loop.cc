#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/read_loop.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/read_loop.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

std::uint64_t read_all(const std::byte* data, std::size_t bytes) {
  const hn::ScalableTag<std::uint64_t> words;
  const std::size_t lanes = hn::Lanes(words);
  const auto* from = reinterpret_cast<const std::uint64_t*>(data);
  auto a = hn::Zero(words);
  auto b = a;
  auto c = a;
  auto d = a;
  for (std::size_t i = 0; i + 4 * lanes <= bytes / 8; i += 4 * lanes) {
    a = hn::Xor(a, hn::Load(words, from + i));
    b = hn::Xor(b, hn::Load(words, from + i + lanes));
    c = hn::Xor(c, hn::Load(words, from + i + 2 * lanes));
    d = hn::Xor(d, hn::Load(words, from + i + 3 * lanes));
  }
  return hn::GetLane(hn::Xor(hn::Xor(a, b), hn::Xor(c, d)));
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace sluice::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels {

HWY_EXPORT(read_all);

std::uint64_t read_all(const std::byte* data, std::size_t bytes) {
  return HWY_DYNAMIC_DISPATCH(read_all)(data, bytes);
}

}  // namespace sluice::kernels
#endif
