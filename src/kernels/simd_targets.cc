#include "kernels/simd_targets.h"

#include <hwy/targets.h>

namespace sluice::kernels {

std::string_view simd_target() {
  const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(targets & -targets);
}

std::vector<std::string> instruction_sets() {
  constexpr std::int64_t kWithout = HWY_SCALAR | HWY_EMU128;  // no instructions of vectors
  std::vector<std::string> names;
  for (std::int64_t rest = hwy::SupportedTargets() & ~kWithout; rest != 0; rest &= rest - 1) {
    names.emplace_back(hwy::TargetName(rest & -rest));
  }
  return names;
}

}  // namespace sluice::kernels
