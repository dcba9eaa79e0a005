#include "engine/synth_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <utility>

namespace sluice::engine {
namespace {

// K3's sizes (SPEC 1 and 13); the symbols are the specification's.
constexpr std::uint64_t kHidden = 7168;                   // H
constexpr std::uint64_t kDenseWidth = 33792;              // F
constexpr std::uint64_t kKdaHeads = 96;                   // Hk
constexpr std::uint64_t kKdaDim = 128;                    // D
constexpr std::uint64_t kKdaWidth = kKdaHeads * kKdaDim;  // P
constexpr std::uint64_t kTaps = 4;                        // K
constexpr std::uint64_t kDecays = 128;                    // A_log as stored: the heads, then zeros
constexpr std::uint64_t kMlaHeads = 96;                   // N
constexpr std::uint64_t kQueryRank = 1536;                // Rq
constexpr std::uint64_t kLatent = 512;                    // Rkv
constexpr std::uint64_t kNope = 128, kRope = 64, kValue = 128;  // dn, dr, dv
constexpr std::uint64_t kExpertLatent = 3584;                   // L
constexpr std::uint64_t kExpertWidth = 3072;                    // I
constexpr std::uint64_t kSharedWidth = 2 * kExpertWidth;
constexpr std::uint64_t kVisionHidden = 1024, kVisionQkv = 1536, kVisionWidth = 4096;
constexpr std::uint64_t kVisionBlocks = 27, kPatch = 14, kGrid = 64, kMerged = 4096;

using Sizes = std::initializer_list<std::uint64_t>;

store::Shape shape_of(Sizes sizes) {
  store::Shape shape;
  for (const std::uint64_t size : sizes) shape.size[shape.rank++] = size;
  return shape;
}

/// Collects a shard's tensors. Values are chosen so that activations keep their size from layer
/// to layer and no gate is stuck.
class ShardMaker {
 public:
  void add(std::string name, DType dtype, Sizes sizes, float mean, float spread) {
    SynthTensor tensor{std::move(name), dtype, shape_of(sizes), Fill::normal, mean, spread, 0};
    tensor.active = tensor.elements();
    tensors_.push_back(std::move(tensor));
  }
  /// A matrix [out, in] that keeps the size of what it multiplies.
  void matrix(std::string name, std::uint64_t out, std::uint64_t in) {
    add(std::move(name), DType::bf16, {out, in}, 0, 1 / std::sqrt(static_cast<float>(in)));
  }
  void norm(std::string name, std::uint64_t size, DType dtype = DType::bf16) {
    add(std::move(name), dtype, {size}, 1, 0.1f);
  }
  /// An MXFP4 matrix of an expert: its codes and its scales. To be added in the order of names.
  void packed(const std::string& name, std::uint64_t out, std::uint64_t in) {
    constexpr float kRmsOfCodes = 2.93f;  // of the 16 values, equally likely
    const float scale = std::log2(std::sqrt(static_cast<float>(in)) * kRmsOfCodes);
    add_packed(name + ".weight_packed", {out, in / 2}, Fill::codes, 0);
    add_packed(name + ".weight_scale", {out, in / 32}, Fill::scales, std::round(127 - scale));
  }
  /// Only the first `active` elements of the last tensor are drawn.
  void zero_after(std::uint64_t active) { tensors_.back().active = active; }

  SynthShard finish(std::string file);

 private:
  void add_packed(std::string name, Sizes sizes, Fill fill, float mean) {
    experts_.push_back({std::move(name), DType::u8, shape_of(sizes), fill, mean, 0, 0});
    experts_.back().active = experts_.back().elements();
  }

  std::vector<SynthTensor> tensors_;  // F32 and BF16, in any order
  std::vector<SynthTensor> experts_;  // U8, in the order of names: thousands, not to be sorted
};

/// The order of dtypes in the released files: F32, BF16, and after them U8.
int rank_of(DType dtype) { return dtype == DType::f32 ? 0 : 1; }

SynthShard ShardMaker::finish(std::string file) {
  const auto before = [](const SynthTensor& a, const SynthTensor& b) {
    const int rank = rank_of(a.dtype) - rank_of(b.dtype);
    return rank != 0 ? rank < 0 : a.name < b.name;
  };
  std::sort(tensors_.begin(), tensors_.end(), before);
  tensors_.insert(tensors_.end(), std::make_move_iterator(experts_.begin()),
                  std::make_move_iterator(experts_.end()));
  SynthShard shard{std::move(file), std::move(tensors_), "{", 0};
  for (const SynthTensor& tensor : shard.tensors) {
    const std::uint64_t end = shard.payload_bytes + tensor.bytes();
    fmt::format_to(std::back_inserter(shard.header),
                   R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                   shard.payload_bytes == 0 ? "" : ",", tensor.name, name_of(tensor.dtype),
                   fmt::join(tensor.shape.sizes(), ","), shard.payload_bytes, end);
    shard.payload_bytes = end;
  }
  shard.header += '}';
  while (shard.header.size() % 8 != 0) shard.header += ' ';
  return shard;
}

void add_kda(ShardMaker& shard, const std::string& prefix) {
  for (const char* name : {"q_proj", "k_proj", "v_proj", "g_proj"}) {
    shard.matrix(prefix + name + ".weight", kKdaWidth, kHidden);
  }
  shard.matrix(prefix + "o_proj.weight", kHidden, kKdaWidth);
  shard.matrix(prefix + "f_a_proj.weight", kKdaDim, kHidden);
  shard.matrix(prefix + "f_b_proj.weight", kKdaWidth, kKdaDim);
  shard.matrix(prefix + "b_proj.weight", kKdaHeads, kHidden);
  for (const char* name : {"q_conv1d", "k_conv1d", "v_conv1d"}) {
    shard.add(prefix + name + ".weight", DType::f32, {kKdaWidth, 1, kTaps}, 0, 0.5f);
  }
  // Decays of some tens of tokens: exp(A_log) about 2, its argument about -2.
  shard.add(prefix + "A_log", DType::f32, {kDecays}, 0.7f, 0.3f);
  shard.zero_after(kKdaHeads);
  shard.add(prefix + "dt_bias", DType::f32, {kKdaWidth}, -2, 0.5f);
  shard.norm(prefix + "o_norm.weight", kKdaDim, DType::f32);
}

void add_mla(ShardMaker& shard, const std::string& prefix) {
  shard.matrix(prefix + "q_a_proj.weight", kQueryRank, kHidden);
  shard.norm(prefix + "q_a_layernorm.weight", kQueryRank);
  shard.matrix(prefix + "q_b_proj.weight", kMlaHeads * (kNope + kRope), kQueryRank);
  shard.matrix(prefix + "kv_a_proj_with_mqa.weight", kLatent + kRope, kHidden);
  shard.norm(prefix + "kv_a_layernorm.weight", kLatent);
  shard.matrix(prefix + "kv_b_proj.weight", kMlaHeads * (kNope + kValue), kLatent);
  shard.matrix(prefix + "g_proj.weight", kMlaHeads * kValue, kHidden);
  shard.matrix(prefix + "o_proj.weight", kHidden, kMlaHeads * kValue);
}

void add_dense(ShardMaker& shard, const std::string& prefix) {
  shard.matrix(prefix + "gate_proj.weight", kDenseWidth, kHidden);
  shard.matrix(prefix + "up_proj.weight", kDenseWidth, kHidden);
  shard.matrix(prefix + "down_proj.weight", kHidden, kDenseWidth);
}

void add_moe(ShardMaker& shard, const std::string& prefix, std::uint64_t experts) {
  shard.matrix(prefix + "gate.weight", experts, kHidden);
  shard.add(prefix + "gate.e_score_correction_bias", DType::f32, {experts}, 0, 0.01f);
  shard.matrix(prefix + "routed_expert_down_proj.weight", kExpertLatent, kHidden);
  shard.norm(prefix + "routed_expert_norm.weight", kExpertLatent);
  shard.matrix(prefix + "routed_expert_up_proj.weight", kHidden, kExpertLatent);
  shard.matrix(prefix + "shared_experts.gate_proj.weight", kSharedWidth, kHidden);
  shard.matrix(prefix + "shared_experts.up_proj.weight", kSharedWidth, kHidden);
  shard.matrix(prefix + "shared_experts.down_proj.weight", kHidden, kSharedWidth);
  std::vector<std::string> numbers;
  for (std::uint64_t expert = 0; expert < experts; ++expert) {
    numbers.push_back(std::to_string(expert));
  }
  std::sort(numbers.begin(), numbers.end());  // as strings: 0, 1, 10, 100, ... (SPEC 3)
  for (const std::string& number : numbers) {
    const std::string name = fmt::format("{}experts.{}.", prefix, number);
    shard.packed(name + "w1", kExpertWidth, kExpertLatent);
    shard.packed(name + "w2", kExpertLatent, kExpertWidth);
    shard.packed(name + "w3", kExpertWidth, kExpertLatent);
  }
}

void add_layer(ShardMaker& shard, const SynthOptions& options, int layer) {
  const std::string prefix = fmt::format("language_model.model.layers.{}.", layer);
  for (const char* name :
       {"input_layernorm", "post_attention_layernorm", "self_attention_res_norm", "mlp_res_norm"}) {
    shard.norm(prefix + name + ".weight", kHidden);
  }
  shard.matrix(prefix + "self_attention_res_proj.weight", 1, kHidden);
  shard.matrix(prefix + "mlp_res_proj.weight", 1, kHidden);
  if (is_mla(options, layer)) {
    add_mla(shard, prefix + "self_attn.");
  } else {
    add_kda(shard, prefix + "self_attn.");
  }
  if (layer == 0) {
    add_dense(shard, prefix + "mlp.");
  } else {
    add_moe(shard, prefix + "block_sparse_moe.", static_cast<std::uint64_t>(options.experts));
  }
}

void add_ends(ShardMaker& shard, std::uint64_t vocabulary) {
  const std::string prefix = "language_model.model.";
  shard.add(prefix + "embed_tokens.weight", DType::bf16, {vocabulary, kHidden}, 0, 1);
  shard.matrix("language_model.lm_head.weight", vocabulary, kHidden);
  shard.norm(prefix + "norm.weight", kHidden);
  shard.norm(prefix + "output_attn_res_norm.weight", kHidden);
  shard.matrix(prefix + "output_attn_res_proj.weight", 1, kHidden);
}

void add_projector(ShardMaker& shard) {
  shard.matrix("mm_projector.proj.0.weight", kMerged, kMerged);
  shard.matrix("mm_projector.proj.2.weight", kHidden, kMerged);
  shard.norm("mm_projector.post_norm.weight", kHidden);
}

void add_vision(ShardMaker& shard) {
  shard.add("vision_tower.patch_embed.proj.weight", DType::bf16, {kVisionHidden, 3, kPatch, kPatch},
            0, 0.04f);
  shard.add("vision_tower.patch_embed.pos_emb.weight", DType::bf16, {kGrid, kGrid, kVisionHidden},
            0, 0.02f);
  shard.norm("vision_tower.encoder.final_layernorm.weight", kVisionHidden);
  for (std::uint64_t block = 0; block < kVisionBlocks; ++block) {
    const std::string prefix = fmt::format("vision_tower.encoder.blocks.{}.", block);
    shard.norm(prefix + "norm0.weight", kVisionHidden);
    shard.norm(prefix + "norm1.weight", kVisionHidden);
    shard.matrix(prefix + "wqkv.weight", 3 * kVisionQkv, kVisionHidden);
    shard.matrix(prefix + "wo.weight", kVisionHidden, kVisionQkv);
    shard.matrix(prefix + "mlp.fc0.weight", kVisionWidth, kVisionHidden);
    shard.matrix(prefix + "mlp.fc1.weight", kVisionHidden, kVisionWidth);
  }
}

}  // namespace

std::uint64_t SynthTensor::elements() const {
  std::uint64_t count = 1;
  for (const std::uint64_t size : shape.sizes()) count *= size;
  return count;
}

SynthShard make_shard(const SynthOptions& options, std::uint64_t index) {
  const auto layers = static_cast<std::uint64_t>(options.layers);
  ShardMaker shard;
  if (index < layers) {
    add_layer(shard, options, static_cast<int>(index));
  } else if (index == layers) {
    add_ends(shard, static_cast<std::uint64_t>(options.vocabulary));
  } else if (index == layers + 1) {
    add_projector(shard);
  } else {
    add_vision(shard);
  }
  return shard.finish(shard_file(options, index));
}

std::string shard_file(const SynthOptions& options, std::uint64_t index) {
  return fmt::format("model-{:05}-of-{:06}.safetensors", index + 1, shard_count(options));
}

}  // namespace sluice::engine
