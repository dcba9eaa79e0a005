#include "kernels/simd_targets.h"

#include <hwy/targets.h>

namespace sluice::kernels {

std::string_view simd_target() {
  const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(targets & -targets);
}

}  // namespace sluice::kernels
