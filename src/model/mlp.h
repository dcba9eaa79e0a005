// A dense feed-forward network, also the shared experts: down(glu(gate x, up x)).
#pragma once

#include <string>

#include "base/result.h"
#include "kernels/ops.h"
#include "model/arena.h"
#include "model/blueprint.h"
#include "model/executor.h"

namespace sluice::model {

struct MlpWeights {
  Matrix gate, up;  ///< [width, hidden]
  Matrix down;      ///< [hidden, width]
};

/// What a container calls the three.
struct MlpNames {
  std::string gate, up, down;
};
/// As releases of safetensors do: `prefix`gate_proj.weight and so on.
MlpNames mlp_names(const std::string& prefix);

MlpWeights find_mlp(BlueprintBuilder& builder, const MlpNames& names, std::size_t width,
                    std::size_t hidden);

struct MlpScratch {
  float *gate, *up;  ///< [positions, width]
  float* prepared;   ///< for inputs of `width`
};
MlpScratch lay_out_mlp(Arena& arena, std::size_t width, std::size_t positions);

/// x [positions, hidden] -> y [positions, hidden].
Status run_mlp(const MlpWeights& weights, const kernels::Glu& glu, Executor& executor,
               const MlpScratch& scratch, Input& x, float* y);

}  // namespace sluice::model
