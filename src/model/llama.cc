#include "model/llama.h"

#include "kernels/ops.h"
#include "model/decoder.h"
#include "model/gqa.h"
#include "model/llama_config.h"
#include "model/mlp.h"

namespace sluice::model {
namespace {

constexpr kernels::Glu kSwiGlu = {};

struct LlamaLayer {
  Vector attention_norm, ffn_norm;  ///< [hidden]
  GqaWeights attention;
  MlpWeights mlp;
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
  std::string gate, up, down;
};

LayerNames names_of(const LlamaConfig& config, std::size_t index) {
  if (config.gguf) {
    const std::string layer = fmt::format("blk.{}.", index);
    return {layer + "attn_norm.weight",
            layer + "ffn_norm.weight",
            {layer + "attn_q", layer + "attn_k", layer + "attn_v", layer + "attn_output",
             layer + "attn_q_norm.weight", layer + "attn_k_norm.weight"},
            layer + "ffn_gate.weight",
            layer + "ffn_up.weight",
            layer + "ffn_down.weight"};
  }
  const std::string layer = fmt::format("model.layers.{}.", index);
  const std::string attention = layer + "self_attn.";
  return {layer + "input_layernorm.weight",
          layer + "post_attention_layernorm.weight",
          {attention + "q_proj", attention + "k_proj", attention + "v_proj", attention + "o_proj",
           attention + "q_norm.weight", attention + "k_norm.weight"},
          layer + "mlp.gate_proj.weight",
          layer + "mlp.up_proj.weight",
          layer + "mlp.down_proj.weight"};
}

LlamaLayer find_layer(BlueprintBuilder& builder, const LlamaConfig& config, std::size_t index) {
  const LayerNames names = names_of(config, index);
  builder.section(TensorClass::trunk, static_cast<int>(index));
  LlamaLayer layer;
  layer.attention_norm = builder.vector(names.attention_norm, config.hidden);
  layer.ffn_norm = builder.vector(names.ffn_norm, config.hidden);
  layer.attention = find_gqa(builder, names.attention, config.attention, config.hidden);
  layer.mlp.gate = builder.matrix(names.gate, config.width, config.hidden);
  layer.mlp.up = builder.matrix(names.up, config.width, config.hidden);
  layer.mlp.down = builder.matrix(names.down, config.hidden, config.width);
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
  weights.ends.head_name = config.tied ? embedding : head;
  weights.ends.head = builder.matrix(weights.ends.head_name, config.vocabulary, config.hidden);
  if (config.tied) builder.leave_out(head);
  return weights;
}

/// All activations of a pass.
struct LlamaScratch {
  DecoderScratch decoder;
  float* angles;         ///< [positions, dim]
  GqaScratch attention;  ///< the two share their room: one is in use at a time
  MlpScratch mlp;
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

Status LlamaNetwork::run_layer(std::size_t index, PassObserver* /*observer*/) {
  const LlamaLayer& layer = weights_.layers[index];
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
  {
    const TraceSpan traced = executor_.span("feed forward", "MLP");
    SLUICE_TRY(run_mlp(layer.mlp, kSwiGlu, executor_, scratch_.mlp, y, scratch().part_out));
  }
  add_part();
  return {};
}

struct LlamaFamily {
  using Config = LlamaConfig;
  using Weights = LlamaWeights;
  using Network = LlamaNetwork;
  static constexpr auto find = find_llama;
  static constexpr auto lay_out = lay_out_llama;

  static Shape shape_of(const LlamaConfig& config) {
    Shape shape;
    shape.architecture = config.model_type;
    shape.layers = config.layers;
    shape.hidden = config.hidden;
    shape.vocabulary = config.vocabulary;
    shape.max_positions = config.max_positions;
    shape.end_ids = config.end_ids;
    shape.layer_kinds.assign(config.layers, "GQA, dense");
    return shape;
  }

  /// Keys and values of every head.
  static std::vector<LayerState> states_of(const LlamaConfig& config) {
    return {config.layers, {.caches = gqa_caches(config.attention), .width = config.attention.dim}};
  }
};
using LlamaArchitecture = DecoderArchitecture<LlamaFamily>;

}  // namespace

Result<std::unique_ptr<Architecture>> open_llama(const std::string& config,
                                                 const store::Checkpoint& checkpoint,
                                                 std::span<const io::FileId> files) {
  SLUICE_ASSIGN(LlamaConfig parsed, parse_llama_config(config));
  CheckpointTensors tensors(checkpoint, files);
  return LlamaArchitecture::match(std::move(parsed), tensors);
}

Result<std::unique_ptr<Architecture>> open_llama_gguf(const store::Checkpoint& checkpoint,
                                                      std::span<const io::FileId> files) {
  SLUICE_ASSIGN(LlamaConfig parsed, read_llama_metadata(checkpoint, *checkpoint.metadata()));
  CheckpointTensors tensors(checkpoint, files);
  return LlamaArchitecture::match(std::move(parsed), tensors);
}

Result<std::unique_ptr<Architecture>> imagine_llama(const std::string& config,
                                                    const std::filesystem::path& place) {
  SLUICE_ASSIGN(LlamaConfig parsed, parse_llama_config(config));
  ReleaseTensors tensors(place, {});
  auto architecture = LlamaArchitecture::match(std::move(parsed), tensors);
  SLUICE_TRY(tensors.check_size());
  return architecture;
}

}  // namespace sluice::model
