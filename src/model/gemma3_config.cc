#include "model/gemma3_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "model/config_limits.h"
#include "model/end_ids.h"
#include "model/fields.h"
#include "model/metadata_reader.h"
#include "model/rope_fields.h"
#include "model/windows.h"

namespace sluice::model {
namespace {

constexpr double kGlobalBase = 1e6;
constexpr double kLocalBase = 1e4;
constexpr std::size_t kPattern = 6;  // every sixth layer has no window

void check_attention(const Gemma3Config& config, std::vector<std::string>& faults,
                     std::string_view where) {
  const GqaConfig& attention = config.attention;
  if (attention.heads % attention.kv_heads != 0) {
    faults.push_back(fmt::format("{}: {} key and value heads do not divide {} heads", where,
                                 attention.kv_heads, attention.heads));
  }
  // Nothing, where it is the model's width divided by more heads than that.
  if (attention.dim == 0 || attention.dim % 2 != 0) {
    faults.push_back(
        fmt::format("{}: a head of {} numbers cannot be rotated in pairs", where, attention.dim));
  }
}

/// Of transformers before version 5: rope_theta and rope_scaling for the layers without a window,
/// rope_local_base_freq for the others; since then rope_parameters by kind of layer.
void read_ropes(Fields& fields, Gemma3Config& config) {
  RopeConfig& global = config.global_rope;
  RopeConfig& local = config.local_rope;
  global.dim = local.dim = config.attention.dim;
  global.base = fields.optional_number("rope_theta", 1, 1e12).value_or(kGlobalBase);
  local.base = fields.optional_number("rope_local_base_freq", 1, 1e12).value_or(kLocalBase);
  fields.ignore({"rope_scaling", "rope_parameters"});
  const std::size_t positions = config.max_positions;
  if (!fields.has("rope_parameters")) {
    if (!fields.has("rope_scaling")) return;
    config.max_positions = read_rope_scaling(fields.object("rope_scaling"), positions, global);
    return;
  }
  Fields kinds = fields.object("rope_parameters");
  for (const auto& [name, rope] :
       {std::pair{"full_attention", &global}, {"sliding_attention", &local}}) {
    if (!kinds.has(name)) continue;
    Fields scaling = kinds.object(name);
    rope->base = scaling.optional_number("rope_theta", 1, 1e12).value_or(rope->base);
    const std::size_t stretched = read_rope_scaling(std::move(scaling), positions, *rope);
    config.max_positions = std::max(config.max_positions, stretched);
  }
  kinds.ignore({"full_attention", "sliding_attention"});
  kinds.finish();
}

/// The defaults are transformers': configurations in the field leave out what equals them.
void read_text_fields(Fields& fields, Gemma3Config& config) {
  pass_boilerplate(fields);
  config.hidden = fields.count("hidden_size", 1, kLargestSize);
  config.layers = fields.count("num_hidden_layers", 1, 4096);
  config.width = fields.count("intermediate_size", 1, kLargestSize);
  config.vocabulary = fields.count_or("vocab_size", 262'208, 1, kLargestSize);
  config.epsilon =
      static_cast<float>(fields.optional_number("rms_norm_eps", 1e-12, 1e-1).value_or(1e-6));
  config.max_positions = fields.count_or("max_position_embeddings", 131'072, 1, kMostPositions);
  config.tied = fields.flag_or("tie_word_embeddings", config.tied);
  GqaConfig& attention = config.attention;
  attention.heads = fields.count_or("num_attention_heads", 8, 1, 4096);
  attention.kv_heads = fields.count_or("num_key_value_heads", 4, 1, 4096);
  attention.dim = fields.count_or("head_dim", 256, 1, 4096);
  attention.bias = attention.output_bias = fields.flag_or("attention_bias", false);
  attention.head_norm = true;
  attention.scale = static_cast<float>(
      1 / std::sqrt(fields.optional_number("query_pre_attn_scalar", 1e-3, 1e6).value_or(256)));
  fields.expect("hidden_activation", "gelu_pytorch_tanh");
  fields.expect("hidden_act", "gelu_pytorch_tanh");
  fields.expect("final_logit_softcapping", nullptr);
  fields.expect("attn_logit_softcapping", nullptr);
  fields.expect("use_bidirectional_attention", false);
  fields.expect("quantization_config", nullptr);
  const std::size_t new_name = fields.count_or("_sliding_window_pattern", kPattern, 1, 4096);
  const std::size_t pattern = fields.count_or("sliding_window_pattern", new_name, 1, 4096);
  config.windows = read_windows(fields, config.layers, 4096,
                                [&](std::size_t layer) { return (layer + 1) % pattern != 0; });
  read_ropes(fields, config);
  fields.ignore({"attention_dropout", "cache_implementation", "_attn_implementation_autoset"});
  fields.finish();
}

/// What stands around the text model's configuration where the model also sees.
Fields text_fields(Fields& root, Gemma3Config& config) {
  pass_boilerplate(root);
  root.expect("quantization_config", nullptr);
  root.ignore({"vision_config", "text_config", "mm_tokens_per_image", "image_token_index",
               "boi_token_index", "eoi_token_index", "image_token_id", "boi_token_id",
               "eoi_token_id", "_attn_implementation_autoset"});
  config.tied = root.flag_or("tie_word_embeddings", true);
  root.finish();
  return root.object("text_config");
}

/// Every sixth layer but for what a file says (the key is younger than most files).
void read_windows(MetadataReader& reader, Gemma3Config& config) {
  const std::uint64_t window = reader.count("attention.sliding_window", 1, kMostPositions);
  const std::uint64_t pattern = reader.count("attention.sliding_window_pattern", 1, 4096, kPattern);
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    config.windows.push_back((layer + 1) % pattern != 0 ? window : 0);
  }
}

void read_ropes(MetadataReader& reader, Gemma3Config& config) {
  RopeConfig& global = config.global_rope;
  RopeConfig& local = config.local_rope;
  global.dim = local.dim = config.attention.dim;
  if (reader.count("rope.dimension_count", 2, 4096, global.dim) != global.dim) {
    reader.fault("rope.dimension_count", "heads that are rotated in part are not supported");
  }
  global.base = reader.number("rope.freq_base", 1, 1e12, kGlobalBase);
  local.base = reader.number("rope.freq_base_swa", 1, 1e12, kLocalBase);
  const std::string type = reader.text("rope.scaling.type", "none");
  const double old_factor = reader.number("rope.scale_linear", 1, 1e6, 1);
  global.factor = reader.number("rope.scaling.factor", 1, 1e6, old_factor);
  reader.ignore({"rope.scaling.finetuned", "rope.scaling.original_context_length"});
  if (type == "linear" || (type == "none" && old_factor > 1)) {
    global.scaling = RopeConfig::Scaling::linear;
  } else if (type != "none") {
    reader.fault("rope.scaling.type",
                 fmt::format("'{}' is not supported, only none and linear", type.substr(0, 40)));
  }
}

/// The files do not have query_pre_attn_scalar. It is the size of a head but in the 27 B model,
/// which is the one of 62 layers.
float scale_of(const Gemma3Config& config) {
  constexpr std::size_t kLargestLayers = 62;
  const std::size_t scalar = config.layers == kLargestLayers
                                 ? config.hidden / config.attention.heads
                                 : config.attention.dim;
  return 1.0f / std::sqrt(static_cast<float>(scalar));
}

}  // namespace

Result<Gemma3Config> parse_gemma3_config(const std::string& text) {
  SLUICE_ASSIGN(const nlohmann::json root, parse_object(text, "config.json"));
  Gemma3Config config;
  std::vector<std::string> faults;
  Fields fields(root, "config.json", faults);
  config.model_type = fields.text("model_type");
  const bool sees = config.model_type == "gemma3";
  Fields inner = sees ? text_fields(fields, config) : std::move(fields);
  read_text_fields(inner, config);
  check_attention(config, faults, "config.json");
  const bool inside = sees && !root.contains("eos_token_id") && root.contains("text_config");
  config.end_ids = read_end_ids(inside ? root["text_config"] : root, config.vocabulary, faults);
  if (!faults.empty()) return fail(ErrorKind::model_files, "{}", fmt::join(faults, "\n"));
  return config;
}

Result<Gemma3Config> read_gemma3_metadata(const store::Checkpoint& checkpoint) {
  const store::Metadata& metadata = *checkpoint.metadata();
  Gemma3Config config;
  config.gguf = true;
  config.model_type = "gemma3";
  MetadataReader reader(metadata, config.model_type);
  config.hidden = reader.count("embedding_length", 1, kLargestSize);
  config.layers = reader.count("block_count", 1, 4096);
  config.width = reader.count("feed_forward_length", 1, kLargestSize);
  config.max_positions = reader.count("context_length", 1, kMostPositions);
  config.epsilon =
      static_cast<float>(reader.number("attention.layer_norm_rms_epsilon", 1e-12, 1e-1));
  GqaConfig& attention = config.attention;
  attention.heads = reader.count("attention.head_count", 1, 4096);
  attention.kv_heads = reader.count("attention.head_count_kv", 1, 4096, attention.heads);
  attention.dim = reader.count("attention.key_length", 1, 4096, config.hidden / attention.heads);
  if (reader.count("attention.value_length", 1, 4096, attention.dim) != attention.dim) {
    reader.fault("attention.value_length", "must equal attention.key_length");
  }
  attention.head_norm = true;
  attention.scale = scale_of(config);
  config.tied = !checkpoint.find("output.weight");
  // The vocabulary is as long as the embedding; the key repeats it.
  const auto embedding = checkpoint.find("token_embd.weight");
  config.vocabulary = embedding && embedding->shape.rank == 2 ? embedding->shape.size[0] : 1;
  reader.ignore({"vocab_size", "tensor_data_layout"});
  for (const char* cap : {"final_logit_softcapping", "attn_logit_softcapping"}) {
    if (reader.number(cap, 0, 1e6, 0) != 0) reader.fault(cap, "is not supported");
  }
  read_windows(reader, config);
  read_ropes(reader, config);
  reader.finish();
  check_attention(config, reader.faults(), metadata.file());
  config.end_ids = read_end_ids(metadata, config.vocabulary, reader.faults());
  if (!reader.faults().empty()) {
    return fail(ErrorKind::model_files, "{}", fmt::join(reader.faults(), "\n"));
  }
  return config;
}

}  // namespace sluice::model
