// The weights of a Kimi model, layer by layer, and the activations of a pass.
#pragma once

#include <vector>

#include "model/arena.h"
#include "model/blueprint.h"
#include "model/kda.h"
#include "model/kimi_config.h"
#include "model/mla.h"
#include "model/mlp.h"
#include "model/moe.h"
#include "model/network.h"

namespace sluice::model {

/// What mixes the residual sources before a layer part (AttnRes, SPEC 6.2).
struct ResidualMix {
  Vector norm;        ///< [hidden]; becomes norm * projection when the vectors are loaded
  Vector projection;  ///< [hidden]
};

struct KimiLayer {
  bool is_kda = false;
  bool is_moe = false;
  Vector input_norm, post_attention_norm;  ///< [hidden]
  ResidualMix attention_mix, ffn_mix;      ///< with AttnRes
  KdaWeights kda;
  MlaWeights mla;
  MlpWeights mlp;
  MoeWeights moe;
};

struct KimiWeights {
  std::vector<KimiLayer> layers;
  EmbeddingTable embedding;
  ResidualMix output_mix;  ///< with AttnRes
  Vector final_norm;       ///< [hidden]
  Matrix head;             ///< [vocabulary, hidden]
};

/// Asks the builder for every tensor, in the order in which a pass uses the matrices.
KimiWeights find_kimi(BlueprintBuilder& builder, const KimiConfig& config);

/// All activations of a pass, [positions, ...] each.
struct KimiScratch {
  float* sum;                 ///< [positions, hidden]: the running sum
  std::vector<float*> banks;  ///< [positions, hidden] each
  float* mixed;               ///< [positions, hidden]
  float* normed;              ///< [positions, hidden]
  float* part_out;            ///< [positions, hidden]: of attention or FFN
  float* prepared;            ///< for inputs of width hidden
  KdaScratch kda;             ///< the four share their room: one is in use at a time
  MlaScratch mla;
  MlpScratch mlp;
  MoeScratch moe;
  float* head_in;  ///< [logit rows, hidden]
  float* head_prepared;
  float* logits;  ///< [logit rows, vocabulary]
};
KimiScratch lay_out_kimi(Arena& arena, const KimiConfig& config, const PassLimits& limits,
                         int threads);

}  // namespace sluice::model
