#include "model/gpt_oss_config.h"

#include <fmt/ranges.h>

#include "model/config_limits.h"
#include "model/end_ids.h"
#include "model/fields.h"
#include "model/gqa_metadata.h"
#include "model/quantization_fields.h"
#include "model/rope_fields.h"
#include "model/windows.h"

namespace sluice::model {
namespace {

constexpr std::uint64_t kMostExperts = 65536;

using Kind = Fields::Kind;

/// What no file of the family says otherwise.
GptOssConfig usual_config() {
  GptOssConfig config;
  config.attention.sinks = true;
  config.rope.base = 150'000;
  config.moe.router.scores = kernels::Router::Scores::picked_softmax;
  config.moe.router.renormalize = false;
  config.moe.expert_bias = true;
  config.glu.kind = kernels::Glu::Kind::limited;
  config.glu.beta = 1.702f;
  config.glu.limit = 7;
  return config;
}

/// Where a file does not name the layers that look back on a window.
bool is_local(std::size_t layer) { return layer % 2 == 0; }

std::string heads_fault(const GqaConfig& attention) {
  if (attention.heads % attention.kv_heads != 0) {
    return fmt::format("{} key and value heads do not divide {} heads", attention.kv_heads,
                       attention.heads);
  }
  const bool is_even = attention.dim > 0 && attention.dim % 2 == 0;
  return is_even ? "" : "a head of an odd size, or of none, cannot be rotated in pairs";
}

void read_attention(Fields& fields, GptOssConfig& config) {
  GqaConfig& attention = config.attention;
  attention.heads = fields.count("num_attention_heads", 1, 4096);
  attention.kv_heads = fields.count("num_key_value_heads", 1, attention.heads);
  attention.dim = fields.count("head_dim", 2, 4096);
  attention.bias = attention.output_bias = fields.flag_or("attention_bias", true);
  const std::string fault = heads_fault(attention);
  if (!fault.empty()) fields.fault("num_key_value_heads, head_dim", fault);
  config.windows =
      read_windows(fields, config.layers, 0, [](std::size_t layer) { return is_local(layer); });
  config.rope.dim = attention.dim;
  config.max_positions = read_rope(fields, config.max_positions, config.rope);
  fields.unused(Kind::number, {"attention_dropout"});
  fields.unused(Kind::integer, {"initial_context_length"});  // rope_scaling has it as well
}

void read_mixture(Fields& fields, GptOssConfig& config) {
  kernels::Router& router = config.moe.router;
  router.experts = fields.count("num_local_experts", 1, kMostExperts);
  router.top_k = fields.count("num_experts_per_tok", 1, router.experts);
  config.moe.width = fields.count("intermediate_size", 1, kLargestSize);
  config.moe.by_turns = true;
  config.glu.beta = static_cast<float>(
      fields.optional_number("swiglu_alpha", 1e-3, 1e3).value_or(config.glu.beta));
  config.glu.limit = static_cast<float>(
      fields.optional_number("swiglu_limit", 1e-3, 1e6).value_or(config.glu.limit));
  fields.unused(Kind::integer, {"experts_per_token"});  // another name of num_experts_per_tok
  fields.unused(Kind::number, {"router_aux_loss_coef"});
  fields.unused(Kind::flag, {"output_router_logits"});
}

void read_fields(Fields& fields, GptOssConfig& config) {
  pass_boilerplate(fields);
  config.model_type = fields.text("model_type");
  config.hidden = fields.count("hidden_size", 1, kLargestSize);
  config.layers = fields.count("num_hidden_layers", 1, 4096);
  config.vocabulary = fields.count("vocab_size", 1, kLargestSize);
  config.epsilon = static_cast<float>(fields.number("rms_norm_eps", 1e-12, 1e-1));
  config.max_positions = fields.count("max_position_embeddings", 1, kMostPositions);
  fields.expect("tie_word_embeddings", false);
  fields.expect("hidden_act", "silu", false);
  read_attention(fields, config);
  read_mixture(fields, config);
  if (fields.has("quantization_config")) check_mxfp4(fields.object("quantization_config"));
  fields.ignore({"quantization_config"});
  fields.finish();
}

}  // namespace

Result<GptOssConfig> parse_gpt_oss_config(const std::string& text) {
  SLUICE_ASSIGN(const nlohmann::json root, parse_object(text, "config.json"));
  GptOssConfig config = usual_config();
  std::vector<std::string> faults;
  Fields fields(root, "config.json", faults);
  read_fields(fields, config);
  config.end_ids = read_end_ids(root, config.vocabulary, faults);
  if (!faults.empty()) return fail(ErrorKind::model_files, "{}", fmt::join(faults, "\n"));
  return config;
}

Result<GptOssConfig> read_gpt_oss_metadata(const store::Checkpoint& checkpoint,
                                           const store::Metadata& metadata) {
  GptOssConfig config = usual_config();
  config.gguf = true;
  config.model_type = "gpt-oss";
  MetadataReader reader(metadata, config.model_type);
  config.hidden = reader.count("embedding_length", 1, kLargestSize);
  config.layers = reader.count("block_count", 1, 4096);
  config.max_positions = reader.count("context_length", 1, kMostPositions);
  config.epsilon =
      static_cast<float>(reader.number("attention.layer_norm_rms_epsilon", 1e-12, 1e-1));
  read_gqa(reader, checkpoint, config.hidden, config.attention);
  const std::uint64_t window = reader.count("attention.sliding_window", 1, kMostPositions);
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    config.windows.push_back(is_local(layer) ? window : 0);
  }
  config.rope.dim = config.attention.dim;
  config.rope.truncate = false;  // as the release has it; the files do not say
  read_rope(reader, config.max_positions, config.rope);
  kernels::Router& router = config.moe.router;
  router.experts = reader.count("expert_count", 1, kMostExperts);
  router.top_k = reader.count("expert_used_count", 1, router.experts);
  const std::uint64_t width = reader.count("feed_forward_length", 1, kLargestSize);
  config.moe.width = reader.count("expert_feed_forward_length", 1, kLargestSize, width);
  const auto embedding = checkpoint.find("token_embd.weight");
  config.vocabulary = embedding && embedding->shape.rank == 2 ? embedding->shape.size[0] : 1;
  reader.ignore({"vocab_size", "tensor_data_layout"});
  reader.finish();
  const std::string fault = heads_fault(config.attention);
  if (!fault.empty()) reader.fault("attention.head_count_kv, attention.key_length", fault);
  config.end_ids = read_end_ids(metadata, config.vocabulary, reader.faults());
  if (!reader.faults().empty()) {
    return fail(ErrorKind::model_files, "{}", fmt::join(reader.faults(), "\n"));
  }
  return config;
}

}  // namespace sluice::model
