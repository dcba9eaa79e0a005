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

MoeNames moe_names(const std::string& prefix) {
  MoeNames names;
  names.router = prefix + "gate.weight";
  names.choice_bias = prefix + "gate.e_score_correction_bias";
  names.shared = mlp_names(prefix + "shared_experts.");
  names.experts = {
      .prefix = prefix + "experts.", .gate = "gate_proj", .down = "down_proj", .up = "up_proj"};
  return names;
}

DeepseekLayer find_layer(BlueprintBuilder& builder, const DeepseekConfig& config,
                         std::size_t index) {
  const std::string prefix = fmt::format("model.layers.{}.", index);
  builder.section(TensorClass::trunk, static_cast<int>(index));
  DeepseekLayer layer;
  layer.attention_norm = builder.vector(prefix + "input_layernorm.weight", config.hidden);
  layer.ffn_norm = builder.vector(prefix + "post_attention_layernorm.weight", config.hidden);
  layer.attention = find_mla(builder, prefix + "self_attn.", config.mla, config.hidden);
  if (config.is_moe(index)) {
    layer.moe = find_moe(builder, moe_names(prefix + "mlp."), config.moe, config.hidden, index);
  } else {
    layer.mlp = find_mlp(builder, mlp_names(prefix + "mlp."), config.dense_width, config.hidden);
  }
  // Which follow from the configuration; old checkpoints have them all the same.
  builder.leave_out(prefix + "self_attn.rotary_emb.");
  return layer;
}

/// Asks for every tensor, in the order in which a pass uses the matrices.
DeepseekWeights find_deepseek(BlueprintBuilder& builder, const DeepseekConfig& config) {
  DeepseekWeights weights;
  builder.section(TensorClass::embedding, -1);
  weights.ends.embedding =
      builder.embedding("model.embed_tokens.weight", config.vocabulary, config.hidden, config.tied);
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    weights.layers.push_back(find_layer(builder, config, layer));
  }
  builder.section(TensorClass::final_norms, -1);
  weights.ends.final_norm = builder.vector("model.norm.weight", config.hidden);
  builder.section(TensorClass::head, -1);
  weights.ends.head_name = config.tied ? "model.embed_tokens.weight" : "lm_head.weight";
  weights.ends.head = builder.matrix(weights.ends.head_name, config.vocabulary, config.hidden);
  for (std::size_t layer = 0; layer < config.drafting_layers; ++layer) {
    builder.leave_out(fmt::format("model.layers.{}.", config.layers + layer));
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
  static constexpr auto find = find_deepseek;
  static constexpr auto lay_out = lay_out_deepseek;

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

Result<std::unique_ptr<Architecture>> imagine_deepseek(const std::string& config,
                                                       const std::filesystem::path& place) {
  SLUICE_ASSIGN(DeepseekConfig parsed, parse_deepseek_config(config));
  const ReleaseHabits habits = habits_of(parsed);
  return DeepseekArchitecture::imagine(std::move(parsed), place, habits);
}

}  // namespace sluice::model
