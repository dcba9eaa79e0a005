#include "model/kimi_layers.h"

#include <algorithm>

namespace sluice::model {
namespace {

ResidualMix find_mix(BlueprintBuilder& builder, const std::string& name, std::size_t hidden) {
  return {builder.vector(name + "_norm.weight", hidden),
          builder.vector(name + "_proj.weight", hidden)};
}

MoeNames moe_names(const std::string& prefix) {
  MoeNames names;
  names.router = prefix + "gate.weight";
  names.choice_bias = prefix + "gate.e_score_correction_bias";
  names.latent_down = prefix + "routed_expert_down_proj.weight";
  names.latent_norm = prefix + "routed_expert_norm.weight";
  names.latent_up = prefix + "routed_expert_up_proj.weight";
  names.shared = mlp_names(prefix + "shared_experts.");
  names.experts = {.prefix = prefix + "experts.", .gate = "w1", .down = "w2", .up = "w3"};
  return names;
}

KimiLayer find_layer(BlueprintBuilder& builder, const KimiConfig& config, std::size_t index) {
  const std::string prefix = fmt::format("{}model.layers.{}.", config.tensor_prefix, index);
  builder.section(TensorClass::trunk, static_cast<int>(index));
  KimiLayer layer;
  layer.is_kda = config.is_kda[index];
  layer.is_moe = config.is_moe(index);
  layer.input_norm = builder.vector(prefix + "input_layernorm.weight", config.hidden);
  layer.post_attention_norm =
      builder.vector(prefix + "post_attention_layernorm.weight", config.hidden);
  if (config.residual_block > 0) {
    layer.attention_mix = find_mix(builder, prefix + "self_attention_res", config.hidden);
    layer.ffn_mix = find_mix(builder, prefix + "mlp_res", config.hidden);
  }
  if (layer.is_kda) {
    layer.kda = find_kda(builder, prefix + "self_attn.", config.kda, config.hidden);
  } else {
    layer.mla = find_mla(builder, mla_names(prefix + "self_attn."), config.mla, config.hidden);
  }
  if (layer.is_moe) {
    layer.moe = find_moe(builder, moe_names(prefix + "block_sparse_moe."), config.moe,
                         config.hidden, index);
  } else {
    layer.mlp = find_mlp(builder, mlp_names(prefix + "mlp."), config.dense_width, config.hidden);
  }
  return layer;
}

}  // namespace

KimiWeights find_kimi(BlueprintBuilder& builder, const KimiConfig& config) {
  const std::string& prefix = config.tensor_prefix;
  KimiWeights weights;
  builder.section(TensorClass::embedding, -1);
  weights.ends.embedding =
      builder.embedding(prefix + "model.embed_tokens.weight", config.vocabulary, config.hidden);
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    weights.layers.push_back(find_layer(builder, config, layer));
  }
  builder.section(TensorClass::final_norms, -1);
  if (config.residual_block > 0) {
    weights.output_mix = find_mix(builder, prefix + "model.output_attn_res", config.hidden);
  }
  weights.ends.final_norm = builder.vector(prefix + "model.norm.weight", config.hidden);
  builder.section(TensorClass::head, -1);
  weights.ends.head = builder.matrix(prefix + "lm_head.weight", config.vocabulary, config.hidden);
  builder.leave_out("vision_tower.");
  builder.leave_out("mm_projector.");
  return weights;
}

KimiScratch lay_out_kimi(Arena& arena, const KimiConfig& config, const Shape& shape,
                         const PassLimits& limits, int threads) {
  const std::size_t rows = limits.positions * config.hidden;
  KimiScratch s{};
  // The head mixes the banks, and rows are kept after the pass: these come before the room that the
  // head shares with the layers.
  s.mixed = arena.take(rows);
  for (std::size_t bank = 0; bank < config.residual_banks(); ++bank) {
    s.banks.push_back(arena.take(rows));
  }
  s.kda_notes = lay_out_kda_notes(arena, config.kda, config.is_kda, limits.drafts, threads);
  s.decoder = lay_out_decoder(arena, shape, limits);
  const std::size_t mark = arena.mark();
  s.kda = lay_out_kda(arena, config.kda, limits, threads);
  arena.back_to(mark);
  s.mla = lay_out_mla(arena, config.mla, limits.positions, limits.context, threads);
  arena.back_to(mark);
  if (config.first_moe_layer > 0 || config.moe_frequency > 1) {
    s.mlp = lay_out_mlp(arena, config.dense_width, limits.positions);
    arena.back_to(mark);
  }
  s.moe = lay_out_moe(arena, config.moe, config.hidden, limits.positions);
  return s;
}

}  // namespace sluice::model
