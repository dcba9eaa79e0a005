#include "model/gpt_oss.h"

#include "model/decoder.h"
#include "model/gpt_oss_config.h"
#include "model/gqa.h"
#include "model/moe.h"
#include "model/windows.h"

namespace sluice::model {
namespace {

struct GptOssLayer {
  Vector attention_norm, ffn_norm;  ///< [hidden]
  GqaWeights attention;
  MoeWeights moe;
};

struct GptOssWeights {
  std::vector<GptOssLayer> layers;
  DecoderEnds ends;
};

GqaNames attention_names(const GptOssConfig& config, const std::string& layer) {
  GqaNames names;
  const std::string prefix = layer + (config.gguf ? "attn_" : "self_attn.");
  const char* const suffix = config.gguf ? "" : "_proj";
  names.query = prefix + "q" + suffix;
  names.key = prefix + "k" + suffix;
  names.value = prefix + "v" + suffix;
  names.out = prefix + (config.gguf ? "output" : "o_proj");
  names.sinks = prefix + (config.gguf ? "sinks.weight" : "sinks");
  return names;
}

MoeNames moe_names(const GptOssConfig& config, const std::string& layer) {
  MoeNames names;
  const std::string router = layer + (config.gguf ? "ffn_gate_inp" : "mlp.router");
  names.router = router + ".weight";
  names.router_bias = router + ".bias";
  if (config.gguf) {
    names.experts = {.form = WantedExperts::Form::together,
                     .prefix = layer,
                     .gate = "ffn_gate_exps",
                     .down = "ffn_down_exps",
                     .up = "ffn_up_exps"};
  } else {
    names.experts = {.form = WantedExperts::Form::gpt_oss,
                     .prefix = layer + "mlp.experts.",
                     .gate = "gate_up_proj",
                     .down = "down_proj"};
  }
  return names;
}

GptOssLayer find_layer(BlueprintBuilder& builder, const GptOssConfig& config, std::size_t index) {
  const std::string prefix =
      config.gguf ? fmt::format("blk.{}.", index) : fmt::format("model.layers.{}.", index);
  const char* const first = config.gguf ? "attn_norm.weight" : "input_layernorm.weight";
  const char* const second =
      config.gguf ? "post_attention_norm.weight" : "post_attention_layernorm.weight";
  builder.section(TensorClass::trunk, static_cast<int>(index));
  GptOssLayer layer;
  layer.attention_norm = builder.vector(prefix + first, config.hidden);
  layer.ffn_norm = builder.vector(prefix + second, config.hidden);
  layer.attention =
      find_gqa(builder, attention_names(config, prefix), config.attention, config.hidden);
  layer.moe = find_moe(builder, moe_names(config, prefix), config.moe, config.hidden, index);
  return layer;
}

/// Asks for every tensor, in the order in which a pass uses the matrices.
GptOssWeights find_gpt_oss(BlueprintBuilder& builder, const GptOssConfig& config) {
  GptOssWeights weights;
  builder.section(TensorClass::embedding, -1);
  weights.ends.embedding =
      builder.embedding(config.gguf ? "token_embd.weight" : "model.embed_tokens.weight",
                        config.vocabulary, config.hidden);
  for (std::size_t index = 0; index < config.layers; ++index) {
    weights.layers.push_back(find_layer(builder, config, index));
  }
  builder.section(TensorClass::final_norms, -1);
  weights.ends.final_norm =
      builder.vector(config.gguf ? "output_norm.weight" : "model.norm.weight", config.hidden);
  builder.section(TensorClass::head, -1);
  weights.ends.head = builder.matrix(config.gguf ? "output.weight" : "lm_head.weight",
                                     config.vocabulary, config.hidden);
  return weights;
}

/// All activations of a pass.
struct GptOssScratch {
  DecoderScratch decoder;
  float* angles;         ///< [positions, dim]
  GqaScratch attention;  ///< the two share their room: one is in use at a time
  MoeScratch moe;
};

GptOssScratch lay_out_gpt_oss(Arena& arena, const GptOssConfig& config, const Shape& shape,
                              const PassLimits& limits, int threads) {
  GptOssScratch s{};
  s.decoder = lay_out_decoder(arena, shape, limits);
  s.angles = arena.take(limits.positions * config.attention.dim);
  const std::size_t mark = arena.mark();
  s.attention = lay_out_gqa(arena, config.attention, limits.positions, limits.context, threads);
  arena.back_to(mark);
  s.moe = lay_out_moe(arena, config.moe, config.hidden, limits.positions);
  return s;
}

class GptOssNetwork final : public Decoder {
 public:
  GptOssNetwork(const GptOssConfig& config, const GptOssWeights& weights, const DecoderParts& parts,
                const PassLimits& limits, const Resources& resources, VectorTable vectors)
      : Decoder(parts, limits, resources, std::move(vectors)),
        config_(config),
        weights_(weights),
        rope_(config.rope, {}) {}

 private:
  DecoderScratch lay_out(Arena& arena) override {
    scratch_ = lay_out_gpt_oss(arena, config_, parts_.shape, limits_, threads());
    return scratch_.decoder;
  }
  void begin_layers() override { find_angles(rope_, scratch_.angles); }
  Status run_layer(std::size_t index, PassObserver* observer) override;

  const GptOssConfig& config_;
  const GptOssWeights& weights_;
  Rope rope_;
  GptOssScratch scratch_{};
};

Status GptOssNetwork::run_layer(std::size_t index, PassObserver* observer) {
  const GptOssLayer& layer = weights_.layers[index];
  if (guesses()) guess(layer.moe, config_.moe, scratch_.moe, scratch().sum, layer.ffn_norm);
  Input x = normed(scratch().sum, layer.attention_norm);
  {
    const TraceSpan traced = executor_.span("attention", "GQA");
    const auto caches = [&](std::size_t segment) { return caches_of(segment, index); };
    SLUICE_TRY(run_gqa(layer.attention, config_.attention, rope_, config_.epsilon, vectors_,
                       executor_, scratch_.attention, {segments(), caches, scratch_.angles}, x,
                       scratch().part_out));
  }
  add_part();
  Input y = normed(scratch().sum, layer.ffn_norm);
  SLUICE_TRY(run_mixture(layer.moe, config_.moe, config_.glu, scratch_.moe, observer, y));
  add_part();
  return {};
}

struct GptOssFamily {
  using Config = GptOssConfig;
  using Weights = GptOssWeights;
  using Network = GptOssNetwork;
  static constexpr auto kFind = find_gpt_oss;
  static constexpr auto kLayOut = lay_out_gpt_oss;

  static Shape shape_of(const GptOssConfig& config) {
    Shape shape = shape_of_mixture(config);
    for (const std::size_t window : config.windows) {
      shape.layer_kinds.push_back(attention_kind(window) + ", MoE");
    }
    return shape;
  }

  static std::vector<LayerState> states_of(const GptOssConfig& config) {
    return gqa_states(config.attention, config.windows);
  }
};
using GptOssArchitecture = DecoderArchitecture<GptOssFamily>;

}  // namespace

Result<std::unique_ptr<Architecture>> open_gpt_oss(const std::string& config,
                                                   const store::Checkpoint& checkpoint,
                                                   std::span<const io::FileId> files) {
  SLUICE_ASSIGN(GptOssConfig parsed, parse_gpt_oss_config(config));
  return GptOssArchitecture::open(std::move(parsed), checkpoint, files);
}

Result<std::unique_ptr<Architecture>> open_gpt_oss_gguf(const store::Checkpoint& checkpoint,
                                                        std::span<const io::FileId> files) {
  SLUICE_ASSIGN(GptOssConfig parsed, read_gpt_oss_metadata(checkpoint, *checkpoint.metadata()));
  return GptOssArchitecture::open(std::move(parsed), checkpoint, files);
}

Result<std::unique_ptr<Architecture>> imagine_gpt_oss(const std::string& config,
                                                      const std::filesystem::path& place) {
  SLUICE_ASSIGN(GptOssConfig parsed, parse_gpt_oss_config(config));
  return GptOssArchitecture::imagine(std::move(parsed), place, {});
}

}  // namespace sluice::model
