#include "model/llama.h"

#include "kernels/ops.h"
#include "model/decoder.h"
#include "model/gqa.h"
#include "model/llama_config.h"
#include "model/mlp.h"
#include "model/moe.h"
#include "model/windows.h"

namespace sluice::model {
namespace {

constexpr kernels::Glu kSwiGlu = {};

struct LlamaLayer {
  Vector attention_norm, ffn_norm;  ///< [hidden]
  GqaWeights attention;
  MlpWeights mlp;
  MoeWeights moe;  ///< instead of mlp
};

struct LlamaWeights {
  std::vector<LlamaLayer> layers;
  std::optional<Vector> rope_divisors;  ///< [dim / 2]
  DecoderEnds ends;
};

/// What a container calls the tensors of a layer.
struct LayerNames {
  std::string attention_norm, ffn_norm;
  GqaNames attention;
  MlpNames mlp;
  MoeNames moe;
};

MoeNames moe_names(const LlamaConfig& config, const std::string& layer) {
  MoeNames names;
  if (config.gguf) {
    names.router = layer + "ffn_gate_inp.weight";
    names.experts = {.form = WantedExperts::Form::together,
                     .prefix = layer,
                     .gate = "ffn_gate_exps",
                     .down = "ffn_down_exps",
                     .up = "ffn_up_exps"};
  } else if (config.model_type == "mixtral") {
    names.router = layer + "block_sparse_moe.gate.weight";
    names.experts = {
        .prefix = layer + "block_sparse_moe.experts.", .gate = "w1", .down = "w2", .up = "w3"};
  } else {
    names.router = layer + "mlp.gate.weight";
    names.experts = {.prefix = layer + "mlp.experts.",
                     .gate = "gate_proj",
                     .down = "down_proj",
                     .up = "up_proj"};
  }
  return names;
}

LayerNames names_of(const LlamaConfig& config, std::size_t index) {
  if (config.gguf) {
    const std::string layer = fmt::format("blk.{}.", index);
    return {layer + "attn_norm.weight",
            layer + "ffn_norm.weight",
            {layer + "attn_q", layer + "attn_k", layer + "attn_v", layer + "attn_output",
             layer + "attn_q_norm.weight", layer + "attn_k_norm.weight"},
            {layer + "ffn_gate.weight", layer + "ffn_up.weight", layer + "ffn_down.weight"},
            moe_names(config, layer)};
  }
  const std::string layer = fmt::format("model.layers.{}.", index);
  const std::string attention = layer + "self_attn.";
  return {layer + "input_layernorm.weight",
          layer + "post_attention_layernorm.weight",
          {attention + "q_proj", attention + "k_proj", attention + "v_proj", attention + "o_proj",
           attention + "q_norm.weight", attention + "k_norm.weight"},
          mlp_names(layer + "mlp."),
          moe_names(config, layer)};
}

LlamaLayer find_layer(BlueprintBuilder& builder, const LlamaConfig& config, std::size_t index) {
  const LayerNames names = names_of(config, index);
  builder.section(TensorClass::trunk, static_cast<int>(index));
  LlamaLayer layer;
  layer.attention_norm = builder.vector(names.attention_norm, config.hidden);
  layer.ffn_norm = builder.vector(names.ffn_norm, config.hidden);
  layer.attention = find_gqa(builder, names.attention, config.attention, config.hidden);
  if (config.is_moe(index)) {
    layer.moe = find_moe(builder, names.moe, config.moe, config.hidden, index);
  } else {
    layer.mlp = find_mlp(builder, names.mlp, config.width, config.hidden);
  }
  // Old checkpoints have the frequencies of the rotation, which follow from the configuration.
  if (!config.gguf) {
    builder.leave_out(fmt::format("model.layers.{}.self_attn.rotary_emb.", index));
  }
  return layer;
}

/// Asks for every tensor, in the order in which a pass uses the matrices.
LlamaWeights find_llama(BlueprintBuilder& builder, const LlamaConfig& config) {
  const char* const embedding = config.gguf ? "token_embd.weight" : "model.embed_tokens.weight";
  const char* const head = config.gguf ? "output.weight" : "lm_head.weight";
  LlamaWeights weights;
  builder.section(TensorClass::embedding, -1);
  weights.ends.embedding =
      builder.embedding(embedding, config.vocabulary, config.hidden, config.tied);
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    weights.layers.push_back(find_layer(builder, config, layer));
  }
  builder.section(TensorClass::final_norms, -1);
  if (config.rope_divisors) {
    weights.rope_divisors = builder.vector("rope_freqs.weight", config.rope.dim / 2);
  }
  weights.ends.final_norm =
      builder.vector(config.gguf ? "output_norm.weight" : "model.norm.weight", config.hidden);
  builder.section(TensorClass::head, -1);
  weights.ends.head =
      builder.matrix(config.tied ? embedding : head, config.vocabulary, config.hidden);
  if (config.tied) builder.leave_out(head);
  return weights;
}

/// All activations of a pass.
struct LlamaScratch {
  DecoderScratch decoder;
  float* angles;         ///< [positions, dim]
  GqaScratch attention;  ///< the three share their room: one is in use at a time
  MlpScratch mlp;
  MoeScratch moe;
};

LlamaScratch lay_out_llama(Arena& arena, const LlamaConfig& config, const Shape& shape,
                           const PassLimits& limits, int threads) {
  LlamaScratch s{};
  s.decoder = lay_out_decoder(arena, shape, limits);
  s.angles = arena.take(limits.positions * config.attention.dim);
  const std::size_t mark = arena.mark();
  s.attention = lay_out_gqa(arena, config.attention, limits.positions, limits.context, threads);
  arena.back_to(mark);
  s.mlp = lay_out_mlp(arena, config.width, limits.positions);
  if (config.moe_layers.empty()) return s;
  arena.back_to(mark);
  s.moe = lay_out_moe(arena, config.moe, config.hidden, limits.positions);
  return s;
}

class LlamaNetwork final : public Decoder {
 public:
  LlamaNetwork(const LlamaConfig& config, const LlamaWeights& weights, const DecoderParts& parts,
               const PassLimits& limits, const Resources& resources, VectorTable vectors)
      : Decoder(parts, limits, resources, std::move(vectors)),
        config_(config),
        weights_(weights),
        rope_(config.rope, divisors()) {}

 private:
  std::span<const float> divisors() const {
    if (!weights_.rope_divisors) return {};
    return {vectors_[*weights_.rope_divisors], weights_.rope_divisors->count};
  }

  DecoderScratch lay_out(Arena& arena) override {
    scratch_ = lay_out_llama(arena, config_, parts_.shape, limits_, threads());
    return scratch_.decoder;
  }
  void begin_layers() override;
  Status run_layer(std::size_t index, PassObserver* observer) override;
  Status feed_forward(const LlamaLayer& layer, std::size_t index, PassObserver* observer, Input& x);

  const LlamaConfig& config_;
  const LlamaWeights& weights_;
  Rope rope_;
  LlamaScratch scratch_{};
};

/// The rotation of every row, the same in all layers.
void LlamaNetwork::begin_layers() {
  for (const RowRange& range : segments()) {
    executor_.parallel(range.count, [&](std::size_t i, int) {
      rope_.angles(range.past + i, scratch_.angles + (range.first + i) * config_.attention.dim);
    });
  }
}

Status LlamaNetwork::feed_forward(const LlamaLayer& layer, std::size_t index,
                                  PassObserver* observer, Input& x) {
  if (config_.is_moe(index)) {
    return run_mixture(layer.moe, config_.moe, kSwiGlu, scratch_.moe, observer, x);
  }
  const TraceSpan traced = executor_.span("feed forward", "MLP");
  return run_mlp(layer.mlp, kSwiGlu, executor_, scratch_.mlp, x, scratch().part_out);
}

Status LlamaNetwork::run_layer(std::size_t index, PassObserver* observer) {
  const LlamaLayer& layer = weights_.layers[index];
  if (config_.is_moe(index) && guesses()) {
    guess(layer.moe, config_.moe, scratch_.moe, scratch().sum, layer.ffn_norm);
  }
  const auto caches = [&](std::size_t segment) { return caches_of(segment, index); };
  const GqaPass attention = {segments(), caches, scratch_.angles};
  Input x = normed(scratch().sum, layer.attention_norm);
  {
    const TraceSpan traced = executor_.span("attention", "GQA");
    SLUICE_TRY(run_gqa(layer.attention, config_.attention, rope_, config_.epsilon, vectors_,
                       executor_, scratch_.attention, attention, x, scratch().part_out));
  }
  add_part();
  Input y = normed(scratch().sum, layer.ffn_norm);
  SLUICE_TRY(feed_forward(layer, index, observer, y));
  add_part();
  return {};
}

struct LlamaFamily {
  using Config = LlamaConfig;
  using Weights = LlamaWeights;
  using Network = LlamaNetwork;
  static constexpr auto kFind = find_llama;
  static constexpr auto kLayOut = lay_out_llama;

  static Shape shape_of(const LlamaConfig& config) {
    Shape shape = shape_of_mixture(config);
    for (std::size_t layer = 0; layer < config.layers; ++layer) {
      shape.layer_kinds.push_back(attention_kind(config.windows[layer]) +
                                  (config.is_moe(layer) ? ", MoE" : ", dense"));
    }
    return shape;
  }

  static std::vector<LayerState> states_of(const LlamaConfig& config) {
    return gqa_states(config.attention, config.windows);
  }
};
using LlamaArchitecture = DecoderArchitecture<LlamaFamily>;

}  // namespace

Result<std::unique_ptr<Architecture>> open_llama(const std::string& config,
                                                 const store::Checkpoint& checkpoint,
                                                 std::span<const io::FileId> files) {
  SLUICE_ASSIGN(LlamaConfig parsed, parse_llama_config(config));
  return LlamaArchitecture::open(std::move(parsed), checkpoint, files);
}

Result<std::unique_ptr<Architecture>> open_llama_gguf(const store::Checkpoint& checkpoint,
                                                      std::span<const io::FileId> files) {
  SLUICE_ASSIGN(LlamaConfig parsed, read_llama_metadata(checkpoint, *checkpoint.metadata()));
  return LlamaArchitecture::open(std::move(parsed), checkpoint, files);
}

Result<std::unique_ptr<Architecture>> imagine_llama(const std::string& config,
                                                    const std::filesystem::path& place) {
  SLUICE_ASSIGN(LlamaConfig parsed, parse_llama_config(config));
  return LlamaArchitecture::imagine(std::move(parsed), place, {});
}

}  // namespace sluice::model
