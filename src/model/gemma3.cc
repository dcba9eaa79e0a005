#include "model/gemma3.h"

#include <array>
#include <cmath>

#include "kernels/ops.h"
#include "model/decoder.h"
#include "model/gemma3_config.h"
#include "model/gqa.h"
#include "model/mlp.h"
#include "model/windows.h"

namespace sluice::model {
namespace {

constexpr kernels::Glu kGeGlu = {.kind = kernels::Glu::Kind::gelu};

struct Gemma3Layer {
  Vector attention_norm, attention_out_norm;  ///< [hidden]: of what goes in and what comes out
  Vector ffn_norm, ffn_out_norm;              ///< [hidden]
  GqaWeights attention;
  MlpWeights mlp;
};

struct Gemma3Weights {
  std::vector<Gemma3Layer> layers;
  DecoderEnds ends;
};

/// What a container calls the tensors of a layer.
struct LayerNames {
  std::array<std::string, 4> norms;  ///< before and after attention, before and after the MLP
  GqaNames attention;
  MlpNames mlp;
};

LayerNames gguf_names(std::size_t index) {
  const std::string layer = fmt::format("blk.{}.", index);
  return {{layer + "attn_norm.weight", layer + "post_attention_norm.weight",
           layer + "ffn_norm.weight", layer + "post_ffw_norm.weight"},
          {layer + "attn_q", layer + "attn_k", layer + "attn_v", layer + "attn_output",
           layer + "attn_q_norm.weight", layer + "attn_k_norm.weight"},
          {layer + "ffn_gate.weight", layer + "ffn_up.weight", layer + "ffn_down.weight"}};
}

LayerNames release_names(const std::string& prefix, std::size_t index) {
  const std::string layer = fmt::format("{}layers.{}.", prefix, index);
  const std::string attention = layer + "self_attn.";
  return {{layer + "input_layernorm.weight", layer + "post_attention_layernorm.weight",
           layer + "pre_feedforward_layernorm.weight", layer + "post_feedforward_layernorm.weight"},
          {attention + "q_proj", attention + "k_proj", attention + "v_proj", attention + "o_proj",
           attention + "q_norm.weight", attention + "k_norm.weight"},
          mlp_names(layer + "mlp.")};
}

Gemma3Layer find_layer(BlueprintBuilder& builder, const Gemma3Config& config,
                       const LayerNames& names, std::size_t index) {
  builder.section(TensorClass::trunk, static_cast<int>(index));
  Gemma3Layer layer;
  Vector* const norms[] = {&layer.attention_norm, &layer.attention_out_norm, &layer.ffn_norm,
                           &layer.ffn_out_norm};
  for (std::size_t i = 0; i < std::size(norms); ++i) {
    *norms[i] = builder.vector(names.norms[i], config.hidden);
  }
  layer.attention = find_gqa(builder, names.attention, config.attention, config.hidden);
  layer.mlp = find_mlp(builder, names.mlp, config.width, config.hidden);
  return layer;
}

/// Where the text model's tensors begin: models that see have been released in two forms.
std::string prefix_of(const BlueprintBuilder& builder, const Gemma3Config& config) {
  if (config.model_type != "gemma3") return "model.";
  const char* const younger = "model.language_model.";
  const bool is_younger = builder.has(std::string(younger) + "embed_tokens.weight");
  return is_younger ? younger : "language_model.model.";
}

/// Asks for every tensor, in the order in which a pass uses the matrices.
Gemma3Weights find_gemma3(BlueprintBuilder& builder, const Gemma3Config& config) {
  const std::string prefix = config.gguf ? "" : prefix_of(builder, config);
  const std::string embedding = config.gguf ? "token_embd.weight" : prefix + "embed_tokens.weight";
  Gemma3Weights weights;
  builder.section(TensorClass::embedding, -1);
  weights.ends.embedding =
      builder.embedding(embedding, config.vocabulary, config.hidden, config.tied);
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    const LayerNames names = config.gguf ? gguf_names(layer) : release_names(prefix, layer);
    weights.layers.push_back(find_layer(builder, config, names, layer));
  }
  builder.section(TensorClass::final_norms, -1);
  weights.ends.final_norm =
      builder.vector(config.gguf ? "output_norm.weight" : prefix + "norm.weight", config.hidden);
  builder.section(TensorClass::head, -1);
  const std::string head = config.gguf                             ? "output.weight"
                           : prefix.starts_with("language_model.") ? "language_model.lm_head.weight"
                                                                   : "lm_head.weight";
  weights.ends.head =
      builder.matrix(config.tied ? embedding : head, config.vocabulary, config.hidden);
  if (config.tied) builder.leave_out(head);
  for (const char* sight : {"vision_tower.", "multi_modal_projector."}) {
    builder.leave_out(sight);
    builder.leave_out(std::string("model.") + sight);
  }
  return weights;
}

/// All activations of a pass.
struct Gemma3Scratch {
  DecoderScratch decoder;
  float* global_angles;  ///< [positions, dim]
  float* local_angles;   ///< [positions, dim]
  GqaScratch attention;  ///< the two share their room: one is in use at a time
  MlpScratch mlp;
};

Gemma3Scratch lay_out_gemma3(Arena& arena, const Gemma3Config& config, const Shape& shape,
                             const PassLimits& limits, int threads) {
  Gemma3Scratch s{};
  s.decoder = lay_out_decoder(arena, shape, limits);
  s.global_angles = arena.take(limits.positions * config.attention.dim);
  s.local_angles = arena.take(limits.positions * config.attention.dim);
  const std::size_t mark = arena.mark();
  s.attention = lay_out_gqa(arena, config.attention, limits.positions, limits.context, threads);
  arena.back_to(mark);
  s.mlp = lay_out_mlp(arena, config.width, limits.positions);
  return s;
}

/// `x` with `bits` bits of mantissa, to nearest.
float rounded(float x, int bits) {
  int exponent = 0;
  const float mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits);
}

/// Embeddings are multiplied with the root of their width. The release computes that in the type
/// of the embedding; nothing is rounded where the stored type is none to compute in.
float embedding_scale(const EmbeddingTable& embedding) {
  const float root = std::sqrt(static_cast<float>(embedding.columns));
  if (embedding.format == kernels::WeightFormat::bf16) return rounded(root, 8);
  if (embedding.format == kernels::WeightFormat::f16) return rounded(root, 11);
  return root;
}

class Gemma3Network final : public Decoder {
 public:
  Gemma3Network(const Gemma3Config& config, const Gemma3Weights& weights, const DecoderParts& parts,
                const PassLimits& limits, const Resources& resources, VectorTable vectors)
      : Decoder(parts, limits, resources, std::move(vectors)),
        config_(config),
        weights_(weights),
        global_rope_(config.global_rope, {}),
        local_rope_(config.local_rope, {}) {
    if (!config.gguf) complete_norms();
  }

 private:
  DecoderScratch lay_out(Arena& arena) override {
    scratch_ = lay_out_gemma3(arena, config_, parts_.shape, limits_, threads());
    return scratch_.decoder;
  }
  void begin_layers() override;
  Status run_layer(std::size_t index, PassObserver* observer) override;
  void complete_norms();
  void add_normed_part(const Vector& norm);

  const Gemma3Config& config_;
  const Gemma3Weights& weights_;
  Rope global_rope_;
  Rope local_rope_;
  Gemma3Scratch scratch_{};
};

/// The release stores how far norm weights are from one; GGUF stores them whole.
void Gemma3Network::complete_norms() {
  for (const Gemma3Layer& layer : weights_.layers) {
    for (const Vector& norm :
         {layer.attention_norm, layer.attention_out_norm, layer.ffn_norm, layer.ffn_out_norm,
          *layer.attention.query_norm, *layer.attention.key_norm}) {
      vectors_.add(norm, 1);
    }
  }
  vectors_.add(weights_.ends.final_norm, 1);
}

void Gemma3Network::begin_layers() {
  const float scale = embedding_scale(weights_.ends.embedding);
  float* const sum = scratch().sum;
  for (std::size_t i = 0; i < floats(); ++i) sum[i] *= scale;
  for (const RowRange& range : segments()) {
    executor_.parallel(range.count, [&](std::size_t i, int) {
      const std::size_t at = (range.first + i) * config_.attention.dim;
      global_rope_.angles(range.past + i, scratch_.global_angles + at);
      local_rope_.angles(range.past + i, scratch_.local_angles + at);
    });
  }
}

/// sum += norm(part_out)
void Gemma3Network::add_normed_part(const Vector& norm) {
  const std::size_t hidden = config_.hidden;
  executor_.parallel(positions(), [&](std::size_t row, int) {
    float* const part = scratch().part_out + row * hidden;
    kernels::rms_norm(part, vectors_[norm], hidden, config_.epsilon, part);
  });
  add_part();
}

Status Gemma3Network::run_layer(std::size_t index, PassObserver* /*observer*/) {
  const Gemma3Layer& layer = weights_.layers[index];
  const bool is_local = config_.windows[index] > 0;
  const auto caches = [&](std::size_t segment) { return caches_of(segment, index); };
  const GqaPass attention = {segments(), caches,
                             is_local ? scratch_.local_angles : scratch_.global_angles};
  Input x = normed(scratch().sum, layer.attention_norm);
  {
    const TraceSpan traced = executor_.span("attention", "GQA");
    SLUICE_TRY(run_gqa(layer.attention, config_.attention, is_local ? local_rope_ : global_rope_,
                       config_.epsilon, vectors_, executor_, scratch_.attention, attention, x,
                       scratch().part_out));
  }
  add_normed_part(layer.attention_out_norm);
  Input y = normed(scratch().sum, layer.ffn_norm);
  {
    const TraceSpan traced = executor_.span("feed forward", "MLP");
    SLUICE_TRY(run_mlp(layer.mlp, kGeGlu, executor_, scratch_.mlp, y, scratch().part_out));
  }
  add_normed_part(layer.ffn_out_norm);
  return {};
}

struct Gemma3Family {
  using Config = Gemma3Config;
  using Weights = Gemma3Weights;
  using Network = Gemma3Network;
  static constexpr auto kFind = find_gemma3;
  static constexpr auto kLayOut = lay_out_gemma3;

  static Shape shape_of(const Gemma3Config& config) {
    Shape shape = shape_of_decoder(config);
    for (const std::size_t window : config.windows) {
      shape.layer_kinds.push_back(attention_kind(window) + ", dense");
    }
    return shape;
  }

  static std::vector<LayerState> states_of(const Gemma3Config& config) {
    return gqa_states(config.attention, config.windows);
  }
};
using Gemma3Architecture = DecoderArchitecture<Gemma3Family>;

}  // namespace

Result<std::unique_ptr<Architecture>> open_gemma3(const std::string& config,
                                                  const store::Checkpoint& checkpoint,
                                                  std::span<const io::FileId> files) {
  SLUICE_ASSIGN(Gemma3Config parsed, parse_gemma3_config(config));
  return Gemma3Architecture::open(std::move(parsed), checkpoint, files);
}

Result<std::unique_ptr<Architecture>> open_gemma3_gguf(const store::Checkpoint& checkpoint,
                                                       std::span<const io::FileId> files) {
  SLUICE_ASSIGN(Gemma3Config parsed, read_gemma3_metadata(checkpoint));
  return Gemma3Architecture::open(std::move(parsed), checkpoint, files);
}

Result<std::unique_ptr<Architecture>> imagine_gemma3(const std::string& config,
                                                     const std::filesystem::path& place) {
  SLUICE_ASSIGN(Gemma3Config parsed, parse_gemma3_config(config));
  return Gemma3Architecture::imagine(std::move(parsed), place, {});
}

}  // namespace sluice::model
