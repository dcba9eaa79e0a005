#include "model/deepseek.h"

#include <array>

#include "model/decoder.h"
#include "model/deepseek_config.h"
#include "model/mla.h"
#include "model/mlp.h"
#include "model/moe.h"

namespace sluice::model {
namespace {

constexpr kernels::Glu kSwiGlu = {};

struct DeepseekLayer {
  Vector attention_norm, ffn_norm;  ///< [hidden]
  MlaWeights attention;
  MlpWeights mlp;
  MoeWeights moe;  ///< instead of mlp
};

struct DeepseekWeights {
  std::vector<DeepseekLayer> layers;
  DecoderEnds ends;
};

/// What a container calls the tensors of a layer.
struct LayerNames {
  std::string prefix, attention_norm, ffn_norm;
  MlaNames attention;
  MlpNames mlp;
  MoeNames moe;
};

LayerNames release_names(std::size_t index) {
  LayerNames names;
  names.prefix = fmt::format("model.layers.{}.", index);
  names.attention_norm = names.prefix + "input_layernorm.weight";
  names.ffn_norm = names.prefix + "post_attention_layernorm.weight";
  names.attention = mla_names(names.prefix + "self_attn.");
  const std::string mlp = names.prefix + "mlp.";
  names.mlp = mlp_names(mlp);
  names.moe.router = mlp + "gate.weight";
  names.moe.choice_bias = mlp + "gate.e_score_correction_bias";
  names.moe.shared = mlp_names(mlp + "shared_experts.");
  names.moe.experts = {
      .prefix = mlp + "experts.", .gate = "gate_proj", .down = "down_proj", .up = "up_proj"};
  return names;
}

MlpNames gguf_mlp(const std::string& layer, const std::string& kind) {
  return {fmt::format("{}ffn_gate{}.weight", layer, kind),
          fmt::format("{}ffn_up{}.weight", layer, kind),
          fmt::format("{}ffn_down{}.weight", layer, kind)};
}

LayerNames gguf_names(std::size_t index) {
  LayerNames names;
  const std::string& layer = names.prefix = fmt::format("blk.{}.", index);
  names.attention_norm = layer + "attn_norm.weight";
  names.ffn_norm = layer + "ffn_norm.weight";
  names.attention = {.kv_a = layer + "attn_kv_a_mqa.weight",
                     .q_a = layer + "attn_q_a.weight",
                     .q_b = layer + "attn_q_b.weight",
                     .q = layer + "attn_q.weight",
                     .kv_b = layer + "attn_kv_b.weight",
                     .k_b = layer + "attn_k_b.weight",
                     .v_b = layer + "attn_v_b.weight",
                     .gate = {},
                     .out = layer + "attn_output.weight",
                     .q_a_norm = layer + "attn_q_a_norm.weight",
                     .kv_a_norm = layer + "attn_kv_a_norm.weight"};
  names.mlp = gguf_mlp(layer, "");
  names.moe.router = layer + "ffn_gate_inp.weight";
  names.moe.choice_bias = layer + "exp_probs_b.bias";
  names.moe.shared = gguf_mlp(layer, "_shexp");
  names.moe.experts = {.form = WantedExperts::Form::together,
                       .prefix = layer,
                       .gate = "ffn_gate_exps",
                       .down = "ffn_down_exps",
                       .up = "ffn_up_exps"};
  return names;
}

DeepseekLayer find_layer(BlueprintBuilder& builder, const DeepseekConfig& config,
                         std::size_t index) {
  const LayerNames names = config.gguf ? gguf_names(index) : release_names(index);
  builder.section(TensorClass::trunk, static_cast<int>(index));
  DeepseekLayer layer;
  layer.attention_norm = builder.vector(names.attention_norm, config.hidden);
  layer.ffn_norm = builder.vector(names.ffn_norm, config.hidden);
  layer.attention = find_mla(builder, names.attention, config.mla, config.hidden);
  if (config.is_moe(index)) {
    layer.moe = find_moe(builder, names.moe, config.moe, config.hidden, index);
  } else {
    layer.mlp = find_mlp(builder, names.mlp, config.dense_width, config.hidden);
  }
  // Which follow from the configuration; old checkpoints have them all the same.
  builder.leave_out(names.prefix + "self_attn.rotary_emb.");
  // Files with heads in two parts have them whole as well, for programs of before.
  if (config.mla.split) builder.leave_out(names.attention.kv_b);
  return layer;
}

/// Asks for every tensor, in the order in which a pass uses the matrices.
DeepseekWeights find_deepseek(BlueprintBuilder& builder, const DeepseekConfig& config) {
  const char* const embedding = config.gguf ? "token_embd.weight" : "model.embed_tokens.weight";
  const char* const head = config.gguf ? "output.weight" : "lm_head.weight";
  DeepseekWeights weights;
  builder.section(TensorClass::embedding, -1);
  weights.ends.embedding =
      builder.embedding(embedding, config.vocabulary, config.hidden, config.tied);
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    weights.layers.push_back(find_layer(builder, config, layer));
  }
  builder.section(TensorClass::final_norms, -1);
  weights.ends.final_norm =
      builder.vector(config.gguf ? "output_norm.weight" : "model.norm.weight", config.hidden);
  builder.section(TensorClass::head, -1);
  weights.ends.head =
      builder.matrix(config.tied ? embedding : head, config.vocabulary, config.hidden);
  for (std::size_t layer = 0; layer < config.drafting_layers; ++layer) {
    builder.leave_out(
        fmt::format("{}.{}.", config.gguf ? "blk" : "model.layers", config.layers + layer));
  }
  return weights;
}

/// All activations of a pass.
struct DeepseekScratch {
  DecoderScratch decoder;
  float* angles;         ///< [positions, rope]
  MlaScratch attention;  ///< the three share their room: one is in use at a time
  MlpScratch mlp;
  MoeScratch moe;
};

DeepseekScratch lay_out_deepseek(Arena& arena, const DeepseekConfig& config, const Shape& shape,
                                 const PassLimits& limits, int threads) {
  DeepseekScratch s{};
  s.decoder = lay_out_decoder(arena, shape, limits);
  s.angles = arena.take(limits.positions * config.mla.rope);
  const std::size_t mark = arena.mark();
  s.attention = lay_out_mla(arena, config.mla, limits.positions, limits.context, threads);
  arena.back_to(mark);
  s.mlp = lay_out_mlp(arena, config.dense_width, limits.positions);
  arena.back_to(mark);
  s.moe = lay_out_moe(arena, config.moe, config.hidden, limits.positions);
  return s;
}

class DeepseekNetwork final : public Decoder {
 public:
  DeepseekNetwork(const DeepseekConfig& config, const DeepseekWeights& weights,
                  const DecoderParts& parts, const PassLimits& limits, const Resources& resources,
                  VectorTable vectors)
      : Decoder(parts, limits, resources, std::move(vectors)),
        config_(config),
        weights_(weights),
        rope_(config.rope, {}) {}

 private:
  DecoderScratch lay_out(Arena& arena) override {
    scratch_ = lay_out_deepseek(arena, config_, parts_.shape, limits_, threads());
    return scratch_.decoder;
  }
  void begin_layers() override { find_angles(rope_, scratch_.angles); }
  Status run_layer(std::size_t index, PassObserver* observer) override;
  Status feed_forward(const DeepseekLayer& layer, bool is_moe, PassObserver* observer, Input& x);

  const DeepseekConfig& config_;
  const DeepseekWeights& weights_;
  Rope rope_;
  DeepseekScratch scratch_{};
};

Status DeepseekNetwork::feed_forward(const DeepseekLayer& layer, bool is_moe,
                                     PassObserver* observer, Input& x) {
  if (is_moe) return run_mixture(layer.moe, config_.moe, kSwiGlu, scratch_.moe, observer, x);
  const TraceSpan traced = executor_.span("feed forward", "MLP");
  return run_mlp(layer.mlp, kSwiGlu, executor_, scratch_.mlp, x, scratch().part_out);
}

Status DeepseekNetwork::run_layer(std::size_t index, PassObserver* observer) {
  const DeepseekLayer& layer = weights_.layers[index];
  const bool is_moe = config_.is_moe(index);
  if (is_moe && guesses()) {
    guess(layer.moe, config_.moe, scratch_.moe, scratch().sum, layer.ffn_norm);
  }
  Input x = normed(scratch().sum, layer.attention_norm);
  {
    const TraceSpan traced = executor_.span("attention", "MLA");
    const auto caches = [&](std::size_t segment) { return caches_of(segment, index); };
    SLUICE_TRY(run_mla(layer.attention, config_.mla, vectors_, executor_, scratch_.attention,
                       {segments(), caches, &rope_, scratch_.angles}, x, scratch().part_out));
  }
  add_part();
  Input y = normed(scratch().sum, layer.ffn_norm);
  SLUICE_TRY(feed_forward(layer, is_moe, observer, y));
  add_part();
  return {};
}

struct DeepseekFamily {
  using Config = DeepseekConfig;
  using Weights = DeepseekWeights;
  using Network = DeepseekNetwork;
  static constexpr auto kFind = find_deepseek;
  static constexpr auto kLayOut = lay_out_deepseek;

  static Shape shape_of(const DeepseekConfig& config) {
    Shape shape = shape_of_mixture(config);
    for (std::size_t layer = 0; layer < config.layers; ++layer) {
      shape.layer_kinds.emplace_back(config.is_moe(layer) ? "MLA, MoE" : "MLA, dense");
    }
    return shape;
  }

  static std::vector<LayerState> states_of(const DeepseekConfig& config) {
    return {config.layers, {.caches = 1, .width = config.mla.cache_width()}};
  }
};
using DeepseekArchitecture = DecoderArchitecture<DeepseekFamily>;

constexpr ReleaseHabits::Suffix kBias = {".e_score_correction_bias", DType::f32};
constexpr std::array kPlain = {kBias};
constexpr std::array kBlockFp8 = {kBias, ReleaseHabits::Suffix{".weight_scale_inv", DType::f32},
                                  ReleaseHabits::Suffix{"_proj.weight", DType::f8_e4m3},
                                  ReleaseHabits::Suffix{"_proj_with_mqa.weight", DType::f8_e4m3}};

ReleaseHabits habits_of(const DeepseekConfig& config) {
  ReleaseHabits habits;
  habits.suffixes = kPlain;
  if (config.announced == DeepseekConfig::Weights::block_fp8) habits.suffixes = kBlockFp8;
  if (config.announced == DeepseekConfig::Weights::int4_experts) {
    habits.packed_experts = DType::i32;
  }
  return habits;
}

}  // namespace

Result<std::unique_ptr<Architecture>> open_deepseek(const std::string& config,
                                                    const store::Checkpoint& checkpoint,
                                                    std::span<const io::FileId> files) {
  SLUICE_ASSIGN(DeepseekConfig parsed, parse_deepseek_config(config));
  return DeepseekArchitecture::open(std::move(parsed), checkpoint, files);
}

Result<std::unique_ptr<Architecture>> open_deepseek_gguf(const store::Checkpoint& checkpoint,
                                                         std::span<const io::FileId> files) {
  SLUICE_ASSIGN(DeepseekConfig parsed, read_deepseek_metadata(checkpoint, *checkpoint.metadata()));
  return DeepseekArchitecture::open(std::move(parsed), checkpoint, files);
}

Result<std::unique_ptr<Architecture>> imagine_deepseek(const std::string& config,
                                                       const std::filesystem::path& place) {
  SLUICE_ASSIGN(DeepseekConfig parsed, parse_deepseek_config(config));
  const ReleaseHabits habits = habits_of(parsed);
  return DeepseekArchitecture::imagine(std::move(parsed), place, habits);
}

}  // namespace sluice::model
