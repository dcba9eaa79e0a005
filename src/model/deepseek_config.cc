#include "model/deepseek_config.h"

#include <fmt/ranges.h>

#include "model/config_limits.h"
#include "model/end_ids.h"
#include "model/fields.h"
#include "model/quantization_fields.h"
#include "model/rope_fields.h"

namespace sluice::model {
namespace {

using Kind = Fields::Kind;

void read_attention(Fields& fields, DeepseekConfig& config) {
  MlaConfig& mla = config.mla;
  mla.heads = fields.count("num_attention_heads", 1, 4096);
  if (fields.count_or("num_key_value_heads", mla.heads, 1, 4096) != mla.heads) {
    fields.fault("num_key_value_heads", "must equal num_attention_heads: MLA has no grouping");
  }
  mla.query_rank = fields.count_or("q_lora_rank", 0, 1, kLargestSize);
  mla.latent = fields.count("kv_lora_rank", 1, kLargestSize);
  mla.nope = fields.count("qk_nope_head_dim", 1, 4096);
  mla.rope = fields.count("qk_rope_head_dim", 2, 4096);
  mla.value = fields.count("v_head_dim", 1, 4096);
  if (mla.rope % 2 != 0) {
    fields.fault("qk_rope_head_dim", "an odd number cannot be rotated in pairs");
    mla.rope += 1;
  }
  config.rope.dim = mla.rope;
  config.rope.neighbours = fields.flag_or("rope_interleave", true);
  config.max_positions = read_rope(fields, config.max_positions, config.rope);
  mla.sharpening = config.rope.score_factor;
  fields.expect("attention_bias", false);
  fields.unused(Kind::integer, {"head_dim", "qk_head_dim"});
  fields.unused(Kind::number, {"attention_dropout"});
}

void read_mixture(Fields& fields, DeepseekConfig& config) {
  kernels::Router& router = config.moe.router;
  // Transformers renamed the field.
  const bool renamed = fields.has("num_local_experts");
  router.experts = fields.count(renamed ? "num_local_experts" : "n_routed_experts", 1, 65536);
  router.top_k = fields.count("num_experts_per_tok", 1, router.experts);
  router.groups = fields.count_or(
      "n_group", 1, 1, std::min<std::uint64_t>(router.experts, kernels::kMostRouterGroups));
  router.top_groups = fields.count_or("topk_group", 1, 1, router.groups);
  if (router.experts % router.groups != 0 ||
      router.top_groups * (router.experts / router.groups) < router.top_k) {
    fields.fault("n_group", "the groups do not divide the experts, or leave too few");
  }
  router.renormalize = fields.flag_or("norm_topk_prob", true);
  router.scale = static_cast<float>(fields.number("routed_scaling_factor", 1e-6, 1e6));
  fields.expect("scoring_func", "sigmoid");
  fields.expect("topk_method", "noaux_tc");
  config.moe.width = fields.count("moe_intermediate_size", 1, kLargestSize);
  config.moe.shared_width = fields.count_or("n_shared_experts", 0, 0, 4096) * config.moe.width;
  config.first_moe_layer = fields.count_or("first_k_dense_replace", 0, 0, kLargestSize);
  fields.expect("moe_layer_freq", 1);
  // Of training only.
  fields.unused(Kind::number, {"aux_loss_alpha", "router_aux_loss_coef"});
  fields.unused(Kind::flag, {"seq_aux", "output_router_logits"});
  fields.unused(Kind::integer, {"ep_size", "pretraining_tp"});
}

void read_quantization(Fields& fields, DeepseekConfig& config) {
  if (!fields.has("quantization_config")) return fields.ignore({"quantization_config"});
  Fields quantization = fields.object("quantization_config");
  const std::string method = quantization.text("quant_method");
  if (method == "fp8") {
    config.announced = DeepseekConfig::Weights::block_fp8;
    config.mla.unpacks_heads = true;
    check_block_fp8(std::move(quantization));
  } else if (method == "compressed-tensors") {
    config.announced = DeepseekConfig::Weights::int4_experts;
    check_compressed_tensors(std::move(quantization), Compressed::int4);
  } else {
    quantization.fault("quant_method",
                       fmt::format("'{}' is not supported, only fp8 and compressed-tensors",
                                   method.substr(0, 40)));
  }
}

void read_fields(Fields& fields, DeepseekConfig& config) {
  pass_boilerplate(fields);
  config.model_type = fields.text("model_type");
  config.hidden = fields.count("hidden_size", 1, kLargestSize);
  config.layers = fields.count("num_hidden_layers", 1, 4096);
  config.vocabulary = fields.count("vocab_size", 1, kLargestSize);
  config.dense_width = fields.count("intermediate_size", 1, kLargestSize);
  config.epsilon = static_cast<float>(fields.number("rms_norm_eps", 1e-12, 1e-1));
  config.max_positions = fields.count("max_position_embeddings", 1, std::uint64_t{1} << 32);
  config.tied = fields.flag_or("tie_word_embeddings", false);
  const bool renamed = fields.has("num_mtp_layers");
  config.drafting_layers =
      fields.count_or(renamed ? "num_mtp_layers" : "num_nextn_predict_layers", 0, 0, 4096);
  fields.expect("hidden_act", "silu", false);
  read_attention(fields, config);
  read_mixture(fields, config);
  read_quantization(fields, config);
  fields.finish();
}

}  // namespace

Result<DeepseekConfig> parse_deepseek_config(const std::string& text) {
  SLUICE_ASSIGN(const nlohmann::json root, parse_object(text, "config.json"));
  DeepseekConfig config;
  std::vector<std::string> faults;
  Fields fields(root, "config.json", faults);
  read_fields(fields, config);
  config.end_ids = read_end_ids(root, config.vocabulary, faults);
  if (!faults.empty()) return fail(ErrorKind::model_files, "{}", fmt::join(faults, "\n"));
  return config;
}

}  // namespace sluice::model
