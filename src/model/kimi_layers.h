// The weights of a Kimi model, layer by layer, and the activations of a pass.
#pragma once

#include <vector>

#include "model/arena.h"
#include "model/blueprint.h"
#include "model/decoder.h"
#include "model/kda.h"
#include "model/kimi_config.h"
#include "model/mla.h"
#include "model/mlp.h"
#include "model/moe.h"

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
  ResidualMix output_mix;  ///< with AttnRes
  DecoderEnds ends;
};

/// Asks the builder for every tensor, in the order in which a pass uses the matrices.
KimiWeights find_kimi(BlueprintBuilder& builder, const KimiConfig& config);

/// All activations of a pass.
struct KimiScratch {
  std::vector<KdaScratch> kda_notes;  ///< by layer, with drafts: they outlast the pass
  DecoderScratch decoder;
  std::vector<float*> banks;  ///< [positions, hidden] each
  float* mixed;               ///< [positions, hidden]
  KdaScratch kda;             ///< the four share their room: one is in use at a time
  MlaScratch mla;
  MlpScratch mlp;
  MoeScratch moe;
};
KimiScratch lay_out_kimi(Arena& arena, const KimiConfig& config, const Shape& shape,
                         const PassLimits& limits, int threads);

}  // namespace sluice::model
