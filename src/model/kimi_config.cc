#include "model/kimi_config.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "model/config_limits.h"
#include "model/fields.h"
#include "model/quantization_fields.h"

namespace sluice::model {
namespace {

using Kind = Fields::Kind;

/// The lists count layers from 1 (SPEC trap 11); together they must name each layer once.
void read_layer_kinds(Fields& fields, KimiConfig& config) {
  const auto kda = fields.counts("kda_layers", kLargestSize);
  const auto full = fields.counts("full_attn_layers", kLargestSize);
  std::vector<int> named(config.layers + 1, 0);
  config.is_kda.assign(config.layers, false);
  bool inside = true;
  const auto name = [&](const std::vector<std::uint64_t>& list, bool is_kda) {
    for (const std::uint64_t layer : list) {
      if (layer == 0 || layer > config.layers) {
        inside = false;
        continue;
      }
      ++named[layer];
      if (is_kda) config.is_kda[layer - 1] = true;
    }
  };
  name(kda, true);
  name(full, false);
  const bool once = std::all_of(named.begin() + 1, named.end(), [](int n) { return n == 1; });
  if (!inside || !once) {
    fields.fault(
        "kda_layers, full_attn_layers",
        fmt::format("must together name each of the layers 1 to {} exactly once", config.layers));
  }
}

void read_kda(Fields fields, KimiConfig& config) {
  config.kda.heads = fields.count("num_heads", 1, 4096);
  config.kda.dim = fields.count("head_dim", 1, 1024);
  config.kda.taps = fields.count("short_conv_kernel_size", 2, 16);
  if (const auto bound = fields.optional_number("gate_lower_bound", -80, 0)) {
    config.kda.has_lower_bound = true;
    config.kda.lower_bound = static_cast<float>(*bound);
  }
  config.kda.full_rank_gate = fields.flag_or("use_full_rank_gate", false);
  read_layer_kinds(fields, config);
  fields.finish();
}

void read_mla(Fields& fields, KimiConfig& config) {
  MlaConfig& mla = config.mla;
  mla.heads = fields.count("num_attention_heads", 1, 4096);
  const std::uint64_t kv_heads = fields.count_or("num_key_value_heads", mla.heads, 1, 4096);
  if (kv_heads != mla.heads) {
    fields.fault("num_key_value_heads", "must equal num_attention_heads: MLA has no grouping");
  }
  mla.query_rank = fields.count_or("q_lora_rank", 0, 1, kLargestSize);
  mla.latent = fields.count("kv_lora_rank", 1, kLargestSize);
  mla.nope = fields.count("qk_nope_head_dim", 1, 4096);
  mla.rope = fields.count("qk_rope_head_dim", 0, 4096);
  mla.value = fields.count("v_head_dim", 1, 4096);
  mla.output_gate = fields.flag_or("mla_use_output_gate", false);
  fields.expect("mla_use_nope", true, false);
  // Carried along, never used: nothing is rotated.
  fields.unused(Kind::number, {"rope_theta"});
  fields.unused(Kind::integer, {"head_dim"});
  fields.expect("rope_scaling", nullptr);
}

void read_moe(Fields& fields, KimiConfig& config) {
  MoeConfig& moe = config.moe;
  moe.router.experts = fields.count("num_experts", 1, 65536);
  moe.router.top_k = fields.count("num_experts_per_token", 1, moe.router.experts);
  moe.router.groups =
      fields.count_or("num_expert_group", 1, 1,
                      std::min<std::uint64_t>(moe.router.experts, kernels::kMostRouterGroups));
  moe.router.top_groups = fields.count_or("topk_group", 1, 1, moe.router.groups);
  if (moe.router.experts % moe.router.groups != 0 ||
      moe.router.top_groups * (moe.router.experts / moe.router.groups) < moe.router.top_k) {
    fields.fault("num_expert_group", "the groups do not divide the experts, or leave too few");
  }
  const std::string scores = fields.text_or("moe_router_activation_func", "sigmoid");
  if (scores != "sigmoid" && scores != "softmax") {
    fields.fault("moe_router_activation_func",
                 fmt::format("'{}' is not supported, only sigmoid and softmax", scores));
  }
  if (scores == "softmax") moe.router.scores = kernels::Router::Scores::softmax;
  // One expert alone keeps its score.
  moe.router.renormalize = fields.flag("moe_renormalize") && moe.router.top_k > 1;
  moe.router.scale = static_cast<float>(fields.number("routed_scaling_factor", 1e-6, 1e6));
  moe.width = fields.count("moe_intermediate_size", 1, kLargestSize);
  moe.latent = fields.count_or("routed_expert_hidden_size", 0, 1, kLargestSize);
  moe.latent_norm = fields.flag_or("latent_moe_use_norm", false);
  moe.shared_width = fields.count_or("num_shared_experts", 0, 0, 4096) * moe.width;
  config.first_moe_layer = fields.count("first_k_dense_replace", 0, kLargestSize);
  config.moe_frequency = fields.count_or("moe_layer_freq", 1, 1, kLargestSize);
  fields.expect("topk_method", "noaux_tc");
  fields.unused(Kind::flag, {"use_grouped_topk"});  // num_expert_group decides
}

void read_glu(Fields& fields, KimiConfig& config) {
  const std::string activation = fields.text("hidden_act");
  if (activation != "situ" && activation != "silu") {
    fields.fault("hidden_act", fmt::format("'{}' is not supported, only situ and silu",
                                           activation.substr(0, 40)));
  }
  if (activation == "situ") config.glu.kind = kernels::Glu::Kind::situ;
  const auto beta = fields.optional_number("activation_situ_beta", 1e-3, 1e6);
  const auto linear_beta = fields.optional_number("activation_situ_linear_beta", 1e-3, 1e6);
  config.glu.beta = static_cast<float>(beta.value_or(1.0));
  config.glu.linear_beta = static_cast<float>(linear_beta.value_or(0.0));
}

void read_text_config(Fields fields, KimiConfig& config) {
  pass_boilerplate(fields);
  config.hidden = fields.count("hidden_size", 1, kLargestSize);
  config.layers = fields.count("num_hidden_layers", 1, 4096);
  config.vocabulary = fields.count("vocab_size", 1, kLargestSize);
  config.epsilon = static_cast<float>(fields.number("rms_norm_eps", 1e-12, 1e-1));
  config.dense_width = fields.count("intermediate_size", 1, kLargestSize);
  config.residual_block = fields.count_or("attn_res_block_size", 0, 1, 4096);
  if (config.residual_banks() > kMostResidualBanks) {
    fields.fault("attn_res_block_size",
                 fmt::format("makes more than {} residual sources", kMostResidualBanks));
  }
  const char* positions =
      fields.has("max_position_embeddings") ? "max_position_embeddings" : "model_max_length";
  config.max_positions = fields.count(positions, 1, std::uint64_t{1} << 32);
  fields.unused(Kind::integer, {"max_position_embeddings", "model_max_length"});
  fields.expect("tie_word_embeddings", false);
  fields.expect("num_nextn_predict_layers", 0);
  read_glu(fields, config);
  read_mla(fields, config);
  read_moe(fields, config);
  read_kda(fields.object("linear_attn_config"), config);
  config.packed_experts = fields.has("quantization_config");
  if (config.packed_experts)
    check_compressed_tensors(fields.object("quantization_config"), Compressed::mxfp4);
  fields.ignore({"quantization_config"});
  fields.finish();
}

void read_root(const nlohmann::json& root, KimiConfig& config, std::vector<std::string>& faults) {
  Fields fields(root, "config.json", faults);
  config.model_type = fields.text("model_type");
  if (config.model_type == "kimi_linear") {
    read_text_config(Fields(root, "config.json", faults), config);
    return;
  }
  config.tensor_prefix = "language_model.";
  pass_boilerplate(fields);
  fields.unused(Kind::integer, {"ignore_index", "media_placeholder_token_id"});
  fields.unused(Kind::text, {"image_placeholder"});
  fields.unused(Kind::object, {"vision_config", "quantization_config"});
  fields.expect("tie_word_embeddings", false);
  Fields text = fields.object("text_config");
  text.expect("model_type", "kimi_linear");
  read_text_config(text, config);
  fields.finish();
}

void read_end_ids(const nlohmann::json& root, KimiConfig& config,
                  std::vector<std::string>& faults) {
  for (const nlohmann::json* object :
       {&root, root.contains("text_config") ? &root["text_config"] : &root}) {
    const auto found = object->find("eos_token_id");
    if (found == object->end() || found->is_null()) continue;
    if (!found->is_number_unsigned() || found->get<std::uint64_t>() >= config.vocabulary) {
      faults.push_back(fmt::format(
          "config.json: eos_token_id: expected an id of the vocabulary, 0 to {}, found {}",
          config.vocabulary - 1, shown(*found)));
      return;
    }
    config.end_ids = {static_cast<std::int32_t>(found->get<std::uint64_t>())};
  }
}

}  // namespace

Result<KimiConfig> parse_kimi_config(const std::string& text) {
  SLUICE_ASSIGN(const nlohmann::json root, parse_object(text, "config.json"));
  KimiConfig config;
  std::vector<std::string> faults;
  read_root(root, config, faults);
  read_end_ids(root, config, faults);
  if (!faults.empty()) {
    return fail(ErrorKind::model_files, "{}", fmt::join(faults, "\n"));
  }
  return config;
}

}  // namespace sluice::model
