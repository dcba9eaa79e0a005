// The hyperparameters of DeepSeek's family as a GGUF file has them: architecture "deepseek2".
#include <fmt/ranges.h>

#include <cmath>

#include "model/config_limits.h"
#include "model/deepseek_config.h"
#include "model/end_ids.h"
#include "model/metadata_reader.h"
#include "model/rope_fields.h"

namespace sluice::model {
namespace {

/// Files with MLA's heads as they are name the sizes of keys and values; those whose heads are
/// split name the latent's, as one head for all, and the others apart.
void read_attention(MetadataReader& reader, const store::Checkpoint& checkpoint, MlaConfig& mla) {
  mla.heads = reader.count("attention.head_count", 1, 4096);
  mla.query_rank = reader.count("attention.q_lora_rank", 0, kLargestSize, 0);
  mla.latent = reader.count("attention.kv_lora_rank", 1, kLargestSize);
  mla.rope = reader.count("rope.dimension_count", 2, 4096);
  mla.split = checkpoint.find("blk.0.attn_k_b.weight").has_value();
  mla.unpacks_heads = true;
  const std::uint64_t key = reader.count("attention.key_length", 2, kLargestSize);
  const std::uint64_t value = reader.count("attention.value_length", 1, kLargestSize);
  const std::uint64_t head_key = reader.count("attention.key_length_mla", 2, 8192, key);
  mla.value = reader.count("attention.value_length_mla", 1, 4096, value);
  const std::uint64_t groups = reader.count("attention.head_count_kv", 1, 4096, mla.heads);
  if (groups != 1 && groups != mla.heads) {
    reader.fault("attention.head_count_kv", "must be 1 or attention.head_count: MLA has no groups");
  }
  if (mla.rope % 2 != 0) {
    reader.fault("rope.dimension_count", "an odd number cannot be rotated in pairs");
    mla.rope += 1;
  }
  if (head_key <= mla.rope || head_key > 8192) {
    reader.fault(head_key == key ? "attention.key_length" : "attention.key_length_mla",
                 "must be more than rope.dimension_count, 8192 at most");
  }
  mla.nope = head_key > mla.rope ? head_key - mla.rope : 1;
}

/// The sharpening is of the scores here, not of cosine and sine as elsewhere.
void read_rotation(MetadataReader& reader, DeepseekConfig& config) {
  config.rope.dim = config.mla.rope;
  config.rope.neighbours = true;
  read_rope(reader, config.max_positions, config.rope);
  const double step = reader.number("rope.scaling.yarn_log_multiplier", 0, 1e3, 0);
  if (config.rope.scaling != RopeConfig::Scaling::yarn) return;
  const double sharpening = 1 + step * std::log(config.rope.factor);
  config.rope.attention_factor = 1;
  config.rope.score_factor = sharpening * sharpening;
  config.mla.sharpening = config.rope.score_factor;
}

void read_mixture(MetadataReader& reader, DeepseekConfig& config) {
  constexpr std::uint64_t kSigmoid = 2;
  kernels::Router& router = config.moe.router;
  router.experts = reader.count("expert_count", 1, 65536);
  router.top_k = reader.count("expert_used_count", 1, router.experts);
  router.groups =
      reader.count("expert_group_count", 1,
                   std::min<std::uint64_t>(router.experts, kernels::kMostRouterGroups), 1);
  router.top_groups = reader.count("expert_group_used_count", 1, router.groups, router.groups);
  if (router.experts % router.groups != 0 ||
      router.top_groups * (router.experts / router.groups) < router.top_k) {
    reader.fault("expert_group_count", "the groups do not divide the experts, or leave too few");
  }
  if (reader.count("expert_gating_func", 0, 16, 1) != kSigmoid) {
    reader.fault("expert_gating_func",
                 "only 2 (sigmoid: DeepSeek V3, Kimi K2, Moonlight) is supported");
  }
  router.renormalize = reader.flag("expert_weights_norm", false);
  router.scale = static_cast<float>(reader.number("expert_weights_scale", 1e-6, 1e6, 1));
  config.moe.width = reader.count("expert_feed_forward_length", 1, kLargestSize);
  config.moe.shared_width = reader.count("expert_shared_count", 0, 4096, 0) * config.moe.width;
  config.first_moe_layer = reader.count("leading_dense_block_count", 0, kLargestSize, 0);
}

void read_sizes(MetadataReader& reader, const store::Checkpoint& checkpoint,
                DeepseekConfig& config) {
  config.hidden = reader.count("embedding_length", 1, kLargestSize);
  config.drafting_layers = reader.count("nextn_predict_layers", 0, 4096, 0);
  const std::uint64_t blocks = reader.count("block_count", 1, 4096);
  config.layers = blocks;
  if (config.drafting_layers >= blocks) {
    reader.fault("nextn_predict_layers", "must be less than block_count, which counts them");
  } else {
    config.layers -= config.drafting_layers;
  }
  config.dense_width = reader.count("feed_forward_length", 1, kLargestSize);
  config.max_positions = reader.count("context_length", 1, kMostPositions);
  config.epsilon =
      static_cast<float>(reader.number("attention.layer_norm_rms_epsilon", 1e-12, 1e-1));
  config.tied = !checkpoint.find("output.weight");
  const auto embedding = checkpoint.find("token_embd.weight");
  config.vocabulary = embedding && embedding->shape.rank == 2 ? embedding->shape.size[0] : 1;
  reader.ignore({"vocab_size", "tensor_data_layout"});
}

}  // namespace

Result<DeepseekConfig> read_deepseek_metadata(const store::Checkpoint& checkpoint,
                                              const store::Metadata& metadata) {
  DeepseekConfig config;
  config.gguf = true;
  config.model_type = "deepseek2";
  MetadataReader reader(metadata, config.model_type);
  read_sizes(reader, checkpoint, config);
  read_attention(reader, checkpoint, config.mla);
  read_rotation(reader, config);
  read_mixture(reader, config);
  reader.finish();
  config.end_ids = read_end_ids(metadata, config.vocabulary, reader.faults());
  if (!reader.faults().empty()) {
    return fail(ErrorKind::model_files, "{}", fmt::join(reader.faults(), "\n"));
  }
  return config;
}

}  // namespace sluice::model
