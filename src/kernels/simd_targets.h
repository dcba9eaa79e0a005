// Which instruction sets the kernels are compiled for. Every file that includes Highway includes
// this first, so that all kernels of one process run on the same one: bits may differ between
// instruction sets (width, fused multiply-add), never within a run.
#pragma once

// Not worth their code: SSSE3 without SSE4 is extinct, and SVE vectors have no size that the
// compiler knows, which the register blocking of the kernels needs (those machines have NEON too).
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#include <string_view>

namespace sluice::kernels {

/// Name of the instruction set that the kernels run on: "AVX3", "AVX2", "NEON", ...
std::string_view simd_target();

}  // namespace sluice::kernels
