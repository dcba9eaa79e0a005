#include "model/llama_mixture.h"

#include <algorithm>

namespace sluice::model {
namespace {

constexpr std::uint64_t kMostExperts = 65536;
constexpr std::uint64_t kMostWidth = std::uint64_t{1} << 24;

/// The layers that are dense all the same.
void read_qwen_layers(Fields& fields, LlamaConfig& config) {
  const std::uint64_t step = fields.count_or("decoder_sparse_step", 1, 1, 4096);
  std::vector<std::uint64_t> dense;
  if (fields.has("mlp_only_layers")) dense = fields.counts("mlp_only_layers", 4096);
  fields.ignore({"mlp_only_layers"});
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    config.moe_layers[layer] =
        (layer + 1) % step == 0 && std::ranges::find(dense, layer) == dense.end();
  }
}

}  // namespace

void read_mixture(Fields& fields, LlamaConfig& config) {
  const bool mixtral = config.model_type == "mixtral";
  if (!mixtral && config.model_type != "qwen3_moe") return;
  kernels::Router& router = config.moe.router;
  router.scores = kernels::Router::Scores::softmax;
  // Transformers renamed the field.
  const bool renamed = mixtral || fields.has("num_local_experts");
  router.experts = fields.count(renamed ? "num_local_experts" : "num_experts", 1, kMostExperts);
  router.top_k = fields.count("num_experts_per_tok", 1, router.experts);
  config.moe.width = mixtral ? config.width : fields.count("moe_intermediate_size", 1, kMostWidth);
  router.renormalize = mixtral || fields.flag_or("norm_topk_prob", false);
  config.moe_layers.assign(config.layers, true);
  if (!mixtral) read_qwen_layers(fields, config);
  // Of training only.
  fields.unused(Fields::Kind::number, {"router_aux_loss_coef", "router_jitter_noise"});
  fields.unused(Fields::Kind::flag, {"output_router_logits"});
}

void read_mixture(MetadataReader& reader, bool is_mixture, LlamaConfig& config) {
  kernels::Router& router = config.moe.router;
  router.experts = is_mixture ? reader.count("expert_count", 1, kMostExperts)
                              : reader.count("expert_count", 0, kMostExperts, 0);
  if (router.experts == 0) return reader.ignore({"expert_used_count"});
  router.scores = kernels::Router::Scores::softmax;
  router.top_k = reader.count("expert_used_count", 1, router.experts);
  config.moe.width = reader.count("expert_feed_forward_length", 1, kMostWidth, config.width);
  config.moe_layers.assign(config.layers, true);
}

}  // namespace sluice::model
