// Which instruction sets the kernels are compiled for. Every file that includes Highway includes
// this first, so that all kernels of one process run on the same one: bits may differ between
// instruction sets (width, fused multiply-add), never within a run.
#pragma once

// Not worth their code: SSSE3 without SSE4 is extinct, and SVE vectors have no size that the
// compiler knows, which the register blocking of the kernels needs (those machines have NEON too).
#define SLUICE_NOT_COMPILED (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#if defined(SLUICE_SANITIZED)
// Sanitizers make of these files minutes of compilation: one instruction set less (SSE4's code is
// AVX2's but for the width), and loops stay loops.
#define HWY_DISABLED_TARGETS (SLUICE_NOT_COMPILED | HWY_SSE4)
#define SLUICE_UNROLL(count)
#else
#define HWY_DISABLED_TARGETS SLUICE_NOT_COMPILED
#define SLUICE_UNROLL(count) HWY_UNROLL(count)
#endif

#include <string>
#include <string_view>
#include <vector>

namespace sluice::kernels {

/// Name of the instruction set that the kernels run on: "AVX3", "AVX2", "NEON", ...
std::string_view simd_target();

/// Names of all that the processor has, compiled for or not, the best first.
std::vector<std::string> instruction_sets();

}  // namespace sluice::kernels
