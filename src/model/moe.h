// A mixture of experts: router, routed experts (in a latent space or not), shared experts
// (SPEC 6.6).
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "kernels/ops.h"
#include "model/arena.h"
#include "model/blueprint.h"
#include "model/executor.h"
#include "model/mlp.h"
#include "model/vectors.h"

namespace sluice::model {

struct MoeConfig {
  kernels::Router router;
  std::size_t width = 0;   ///< of one routed expert
  std::size_t latent = 0;  ///< 0: the experts work at full width
  bool latent_norm = false;
  bool expert_bias = false;
  bool by_turns = false;         ///< an expert's rows of gate and up lie by turns
  std::size_t shared_width = 0;  ///< of all shared experts together; 0: none
};

/// What a container calls the tensors of a mixture. An empty name: there is no such tensor.
struct MoeNames {
  std::string router;
  std::string router_bias;                          ///< added to the router's logits
  std::string choice_bias;                          ///< added to the scores for the choice only
  std::string latent_down, latent_norm, latent_up;  ///< with a latent space
  MlpNames shared;                                  ///< with shared experts
  WantedExperts experts;                            ///< names only
};

struct MoeWeights {
  std::size_t layer = 0;
  ExpertLayout experts;
  Matrix router;                                   ///< [experts, hidden]
  std::optional<Vector> router_bias, choice_bias;  ///< [experts]
  Matrix latent_down;                              ///< [latent, hidden]
  Vector latent_norm;                              ///< [latent]
  Matrix latent_up;                                ///< [hidden, latent]
  MlpWeights shared;
};

MoeWeights find_moe(BlueprintBuilder& builder, const MoeNames& names, const MoeConfig& config,
                    std::size_t hidden, std::size_t layer);

/// That a row wants an expert.
struct Pick {
  std::uint32_t row;
  std::uint32_t slot;  ///< which of the row's picks
};

/// Activations of a pass inside one MoE layer. E experts, k picks per position, W the width that
/// routed experts see (latent or hidden), I their inner width.
struct MoeScratch {
  float* logits;           ///< [positions, E]
  float* weights;          ///< [positions, k]
  std::int32_t* ids;       ///< [positions, k]
  Pick* picks;             ///< [positions * k], by expert
  float* latent;           ///< [positions, W]
  float* latent_prepared;  ///< for inputs of width W
  float* gathered;         ///< [positions, W]: an expert's rows
  float* gate;             ///< [positions, I]
  float* up;               ///< [positions, I]
  float* pairs;            ///< [positions, 2 I]: rows of gate and up by turns
  float* biases;           ///< [2 I + W]: an expert's, of gate, up and down
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
