#include "model/llama_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "model/config_limits.h"
#include "model/end_ids.h"
#include "model/fields.h"
#include "model/gqa_metadata.h"
#include "model/llama_mixture.h"
#include "model/metadata_reader.h"
#include "model/rope_fields.h"
#include "model/windows.h"

namespace sluice::model {
namespace {

constexpr double kMostFactor = 1e6;

void check_attention(const LlamaConfig& config, std::vector<std::string>& faults,
                     std::string_view where) {
  const GqaConfig& attention = config.attention;
  if (attention.heads % std::max<std::size_t>(attention.kv_heads, 1) != 0) {
    faults.push_back(fmt::format("{}: {} key and value heads do not divide {} heads", where,
                                 attention.kv_heads, attention.heads));
  }
  // Nothing, where it is the model's width divided by more heads than that.
  if (attention.dim == 0 || attention.dim % 2 != 0) {
    faults.push_back(
        fmt::format("{}: a head of {} numbers cannot be rotated in pairs", where, attention.dim));
  }
}

/// All layers of mistral and mixtral look back on a window, qwen's from a certain layer on.
void read_windows(Fields& fields, LlamaConfig& config) {
  const bool used = fields.flag_or("use_sliding_window", !config.model_type.starts_with("qwen"));
  const std::uint64_t first = fields.count_or("max_window_layers", 0, 0, kLargestSize);
  config.windows = read_windows(fields, config.layers, 0,
                                [&](std::size_t layer) { return used && layer >= first; });
}

void read_fields(Fields& fields, LlamaConfig& config) {
  pass_boilerplate(fields);
  config.model_type = fields.text("model_type");
  config.hidden = fields.count("hidden_size", 1, kLargestSize);
  config.layers = fields.count("num_hidden_layers", 1, 4096);
  config.vocabulary = fields.count("vocab_size", 1, kLargestSize);
  config.width = fields.count("intermediate_size", 1, kLargestSize);
  config.epsilon = static_cast<float>(fields.number("rms_norm_eps", 1e-12, 1e-1));
  config.max_positions = fields.count("max_position_embeddings", 1, kMostPositions);
  config.tied = fields.flag_or("tie_word_embeddings", false);
  GqaConfig& attention = config.attention;
  attention.heads = fields.count("num_attention_heads", 1, 4096);
  attention.kv_heads = fields.count_or("num_key_value_heads", attention.heads, 1, 4096);
  attention.dim = fields.count_or("head_dim", config.hidden / attention.heads, 1, 4096);
  if (config.model_type == "qwen2") {
    attention.bias = true;
  } else {
    attention.bias = fields.flag_or("attention_bias", false);
    attention.output_bias = attention.bias;
  }
  attention.head_norm = config.model_type.starts_with("qwen3");
  fields.expect("hidden_act", "silu", false);
  fields.expect("mlp_bias", false);
  fields.expect("pretraining_tp", 1);
  fields.expect("quantization_config", nullptr);
  fields.ignore({"attention_dropout", "is_llama_config", "transformers.js_config",
                 "attn_implementation", "_attn_implementation_autoset", "pad_token"});
  read_mixture(fields, config);
  read_windows(fields, config);
  config.rope.dim = attention.dim;
  config.max_positions = read_rope(fields, config.max_positions, config.rope);
  fields.finish();
}

}  // namespace

Result<LlamaConfig> parse_llama_config(const std::string& text) {
  SLUICE_ASSIGN(const nlohmann::json root, parse_object(text, "config.json"));
  LlamaConfig config;
  std::vector<std::string> faults;
  Fields fields(root, "config.json", faults);
  read_fields(fields, config);
  check_attention(config, faults, "config.json");
  config.end_ids = read_end_ids(root, config.vocabulary, faults);
  if (!faults.empty()) return fail(ErrorKind::model_files, "{}", fmt::join(faults, "\n"));
  return config;
}

Result<LlamaConfig> read_llama_metadata(const store::Checkpoint& checkpoint,
                                        const store::Metadata& metadata) {
  LlamaConfig config;
  config.gguf = true;
  SLUICE_ASSIGN(const std::string_view architecture, metadata.text("general.architecture"));
  config.model_type = architecture;
  MetadataReader reader(metadata, config.model_type);
  config.hidden = reader.count("embedding_length", 1, kLargestSize);
  config.layers = reader.count("block_count", 1, 4096);
  config.width = reader.count("feed_forward_length", 1, kLargestSize);
  config.max_positions = reader.count("context_length", 1, kMostPositions);
  config.epsilon =
      static_cast<float>(reader.number("attention.layer_norm_rms_epsilon", 1e-12, 1e-1));
  GqaConfig& attention = config.attention;
  read_gqa(reader, checkpoint, config.hidden, attention);
  config.rope_divisors = checkpoint.find("rope_freqs.weight").has_value();
  config.tied = !checkpoint.find("output.weight");
  // The vocabulary is as long as the embedding; the key repeats it.
  const auto embedding = checkpoint.find("token_embd.weight");
  config.vocabulary = embedding && embedding->shape.rank == 2 ? embedding->shape.size[0] : 1;
  const bool is_mixture =
      config.model_type == "qwen3moe" || checkpoint.find("blk.0.ffn_gate_inp.weight").has_value();
  read_mixture(reader, is_mixture, config);
  reader.ignore({"vocab_size", "tensor_data_layout"});
  if (!reader.flag("attention.causal", true)) {
    reader.fault("attention.causal", "attention to later positions is not supported");
  }
  const std::uint64_t window = reader.count("attention.sliding_window", 0, kMostPositions, 0);
  if (window > 0 && window < config.max_positions) {
    reader.fault("attention.sliding_window",
                 "attention to the last positions only is not supported");
  }
  config.windows.assign(config.layers, 0);
  config.rope.dim = attention.dim;
  // The converters of these files reorder llama's heads so that neighbours make pairs.
  config.rope.neighbours = config.model_type == "llama";
  read_rope(reader, config.max_positions, config.rope);
  reader.finish();
  check_attention(config, reader.faults(), metadata.file());
  config.end_ids = read_end_ids(metadata, config.vocabulary, reader.faults());
  if (!reader.faults().empty()) {
    return fail(ErrorKind::model_files, "{}", fmt::join(reader.faults(), "\n"));
  }
  return config;
}

}  // namespace sluice::model
