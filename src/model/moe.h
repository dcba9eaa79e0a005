// A mixture of experts: router, routed experts (in a latent space or not), shared experts
// (SPEC 6.6).
#pragma once

#include <optional>
#include <span>

#include "base/result.h"
#include "model/arena.h"
#include "model/blueprint.h"
#include "model/executor.h"
#include "model/kimi_config.h"
#include "model/mlp.h"
#include "model/vectors.h"

namespace sluice::model {

struct MoeWeights {
  std::size_t layer = 0;
  kernels::WeightFormat expert_format = kernels::WeightFormat::f32;
  Matrix router;       ///< [experts, hidden]
  Vector bias;         ///< [experts]: for the choice only
  Matrix latent_down;  ///< [latent, hidden]
  Vector latent_norm;  ///< [latent]
  Matrix latent_up;    ///< [hidden, latent]
  MlpWeights shared;
};

MoeWeights find_moe(BlueprintBuilder& builder, const std::string& prefix, const MoeConfig& config,
                    std::size_t hidden, std::size_t layer);

/// Activations of a pass inside one MoE layer. E experts, k picks per position, W the width that
/// routed experts see (latent or hidden), I their inner width.
struct MoeScratch {
  float* logits;           ///< [positions, E]
  float* weights;          ///< [positions, k]
  std::int32_t* ids;       ///< [positions, k]
  float* latent;           ///< [positions, W]
  float* latent_prepared;  ///< for inputs of width W
  float* gathered;         ///< [positions, W]: an expert's rows
  float* gate;             ///< [positions, I]
  float* up;               ///< [positions, I]
  float* expert_prepared;  ///< for inputs of width W or I
  float* contributions;    ///< [positions * k, W]
  MlpScratch shared;
};
MoeScratch lay_out_moe(Arena& arena, const MoeConfig& config, std::size_t hidden,
                       std::size_t positions);

/// x [positions, hidden] -> y [positions, hidden]. The picks are left in scratch.ids.
/// ErrorKind::number, naming layer and expert, when an expert's scales or output are not numbers.
Status run_moe(const MoeWeights& weights, const MoeConfig& config, const kernels::Glu& glu,
               float epsilon, const VectorTable& vectors, Executor& executor,
               const MoeScratch& scratch, Input& x, float* y);

/// Guesses the picks of a layer for one position from a state x [1, hidden] that is not final yet,
/// and has up to `most` of them read with idle drive time. Nothing if its router is not in memory.
void guess_experts(const MoeWeights& weights, const MoeConfig& config, const VectorTable& vectors,
                   Executor& executor, const MoeScratch& scratch, Input& x, std::size_t most);

}  // namespace sluice::model
