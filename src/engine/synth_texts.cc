#include "engine/synth_texts.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/synth_plan.h"

namespace sluice::engine {
namespace {

using Json = nlohmann::json;  // keeps keys sorted, as the release's config is

constexpr int kSpecials = 256;  // the last ids of every vocabulary
constexpr int kTopK = 16;

int first_special(const SynthOptions& options) { return options.vocabulary - kSpecials; }
int begin_id(const SynthOptions& options) { return first_special(options); }
int end_of_message_id(const SynthOptions& options) { return first_special(options) + 2; }
int media_pad_id(const SynthOptions& options) { return first_special(options) + 21; }
int pad_id(const SynthOptions& options) { return options.vocabulary - 1; }

/// What means nothing to the graph, and the switches that are always the same.
constexpr std::string_view kTextConfig = R"({
"_name_or_path":"","activation_situ_beta":4.0,"activation_situ_linear_beta":25.0,
"add_cross_attention":false,"architectures":["KimiLinearForCausalLM"],"attn_res_block_size":12,
"auto_map":{"AutoConfig":"configuration_kimi_k3.KimiLinearConfig",
"AutoModel":"modeling_kimi_linear.KimiLinearModel",
"AutoModelForCausalLM":"modeling_kimi_linear.KimiLinearForCausalLM"},
"bad_words_ids":null,"begin_suppress_tokens":null,"chunk_size_feed_forward":0,
"cross_attention_hidden_size":null,"decoder_start_token_id":null,"diversity_penalty":0.0,
"do_sample":false,"dtype":"bfloat16","early_stopping":false,"encoder_no_repeat_ngram_size":0,
"exponential_decay_length_penalty":null,"finetuning_task":null,"first_k_dense_replace":1,
"forced_bos_token_id":null,"forced_eos_token_id":null,"hidden_act":"situ","hidden_size":7168,
"id2label":{"0":"LABEL_0","1":"LABEL_1"},"initializer_range":0.02,"intermediate_size":33792,
"is_decoder":false,"is_encoder_decoder":false,"kv_lora_rank":512,
"label2id":{"LABEL_0":0,"LABEL_1":1},"latent_moe_use_norm":true,"length_penalty":1.0,
"linear_attn_config":{"gate_lower_bound":-5.0,"head_dim":128,"num_heads":96,
"short_conv_kernel_size":4,"use_full_rank_gate":true},
"max_length":20,"max_position_embeddings":1048576,"min_length":0,"mla_use_nope":true,
"mla_use_output_gate":true,"model_type":"kimi_linear","moe_intermediate_size":3072,
"moe_layer_freq":1,"moe_renormalize":true,"moe_router_activation_func":"sigmoid",
"no_repeat_ngram_size":0,"num_attention_heads":96,"num_beam_groups":1,"num_beams":1,
"num_expert_group":1,"num_key_value_heads":96,"num_nextn_predict_layers":0,
"num_return_sequences":1,"num_shared_experts":2,"output_attentions":false,
"output_hidden_states":false,"output_scores":false,"prefix":null,"problem_type":null,
"pruned_heads":{},"q_lora_rank":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
"quantization_config":{"config_groups":{"group_0":{"format":"mxfp4-pack-quantized",
"input_activations":null,"output_activations":null,"targets":["Linear"],
"weights":{"actorder":null,"block_structure":null,"dynamic":false,"group_size":32,"num_bits":4,
"observer":"minmax","observer_kwargs":{},"scale_dtype":"torch.uint8","strategy":"group",
"symmetric":true,"type":"float","zp_dtype":null}}},"format":"mxfp4-pack-quantized",
"global_compression_ratio":null,"ignore":["re:.*self_attn.*","re:.*shared_experts.*",
"re:.*mlp\\.(gate|up|gate_up|down)_proj.*","re:.*lm_head.*","re:.*vision_tower.*",
"re:.*mm_projector.*"],"kv_cache_scheme":null,"quant_method":"compressed-tensors",
"quantization_status":"compressed"},
"remove_invalid_values":false,"repetition_penalty":1.0,"return_dict":true,
"return_dict_in_generate":false,"rms_norm_eps":1e-05,"routed_expert_hidden_size":3584,
"routed_scaling_factor":1.0,"sep_token_id":null,"suppress_tokens":null,
"task_specific_params":null,"temperature":1.0,"tf_legacy_loss":false,
"tie_encoder_decoder":false,"tie_word_embeddings":false,"tokenizer_class":null,"top_k":50,
"top_p":1.0,"topk_group":1,"topk_method":"noaux_tc","torchscript":false,
"transformers_version":"4.56.2","typical_p":1.0,"use_bfloat16":false,"use_cache":true,
"use_grouped_topk":true,"v_head_dim":128})";

constexpr std::string_view kRootConfig = R"({
"architectures":["KimiK3ForConditionalGeneration"],
"auto_map":{"AutoConfig":"configuration_kimi_k3.KimiK3Config",
"AutoModel":"modeling_kimi_k3.KimiK3ForConditionalGeneration",
"AutoModelForCausalLM":"modeling_kimi_k3.KimiK3ForConditionalGeneration"},
"dtype":"bfloat16","ignore_index":-100,"image_placeholder":"<|kimi_image_placeholder|>",
"model_type":"kimi_k3","tie_word_embeddings":false,
"vision_config":{"_attn_implementation":"flash_attention_2",
"activation_func":"gelu_pytorch_tanh","attn_bias":false,"init_pos_emb_height":64,
"init_pos_emb_time":4,"init_pos_emb_width":64,"linear_bias":false,"merge_kernel_size":[2,2],
"merge_type":"sd2_tpool","mlp_type":"mlp2","mm_hidden_size":1024,
"mm_projector_type":"patchmergerv2","norm_type":"rmsnorm","patch_embed_proj_bias":false,
"patch_size":14,"pos_emb_interpolation_mode":"bilinear","pos_emb_type":"divided_fixed",
"projector_hidden_act":"gelu","projector_ln_eps":1e-05,"qkv_hidden_size":1536,
"text_hidden_size":7168,"vt_hidden_size":1024,"vt_intermediate_size":4096,
"vt_num_attention_heads":12,"vt_num_hidden_layers":27}})";

void set_token_ids(Json& config, const SynthOptions& options) {
  config["bos_token_id"] = begin_id(options);
  config["eos_token_id"] = end_of_message_id(options);
  config["pad_token_id"] = pad_id(options);
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= count ? kDigits[(bits >> (18 - 6 * i)) & 63] : '=';
    }
  }
  return text;
}

/// The order of the single bytes in the released rank file (SPEC 9.1).
std::vector<char> byte_order() {
  std::vector<int> order;
  const auto add = [&](int first, int last) {
    for (int byte = first; byte <= last; ++byte) order.push_back(byte);
  };
  add(33, 126);
  add(161, 172);
  add(174, 255);
  add(0, 32);
  add(127, 160);
  add(173, 173);
  std::vector<char> bytes;
  bytes.reserve(order.size());
  for (const int byte : order) bytes.push_back(static_cast<char>(byte));
  return bytes;
}

/// All bytes, common letters first, so that merges happen in ordinary text.
std::vector<char> merge_order() {
  constexpr std::string_view kCommon = " etaoinshrdlcumwfgypbvkjxqz";
  std::vector<char> order(kCommon.begin(), kCommon.end());
  for (const char byte : byte_order()) {
    if (kCommon.find(byte) == std::string_view::npos) order.push_back(byte);
  }
  return order;
}

/// The 65,536 pairs, those of early bytes first.
std::vector<std::pair<char, char>> merge_pairs(const std::vector<char>& bytes) {
  std::vector<std::pair<char, char>> pairs;
  for (std::size_t sum = 0; sum <= 2 * (bytes.size() - 1); ++sum) {
    for (std::size_t i = 0; i <= sum; ++i) {
      if (i < bytes.size() && sum - i < bytes.size()) pairs.emplace_back(bytes[i], bytes[sum - i]);
    }
  }
  return pairs;
}

/// Offsets from the first special id (SPEC 9.2).
constexpr std::array<std::pair<int, std::string_view>, 16> kSpecialNames = {{
    {0, "[BOS]"},
    {1, "[EOS]"},
    {2, "<|end_of_msg|>"},
    {3, "<|open|>"},
    {4, "<|close|>"},
    {5, "<|sep|>"},
    {6, "[start_header_id]"},
    {7, "[end_header_id]"},
    {9, "[EOT]"},
    {18, "<|media_begin|>"},
    {19, "<|media_content|>"},
    {20, "<|media_end|>"},
    {21, "<|media_pad|>"},
    {65, "<osagent_mode>"},
    {254, "[UNK]"},
    {255, "[PAD]"},
}};

}  // namespace

std::string synth_config(const SynthOptions& options) {
  Json text = Json::parse(kTextConfig);
  set_token_ids(text, options);
  text["num_hidden_layers"] = options.layers;
  text["num_experts"] = options.experts;
  text["num_experts_per_token"] = std::min(options.experts, kTopK);
  text["vocab_size"] = options.vocabulary;
  Json& layers = text["linear_attn_config"];
  layers["kda_layers"] = Json::array();
  layers["full_attn_layers"] = Json::array();
  for (int layer = 0; layer < options.layers; ++layer) {
    // The lists of the config count from 1.
    layers[is_mla(options, layer) ? "full_attn_layers" : "kda_layers"].push_back(layer + 1);
  }
  Json config = Json::parse(kRootConfig);
  set_token_ids(config, options);
  config["media_placeholder_token_id"] = media_pad_id(options);
  config["text_config"] = std::move(text);
  return config.dump(2);
}

std::string synth_generation_config(const SynthOptions& options) {
  return fmt::format("{{\n  \"max_length\": 1048576,\n  \"eos_token_id\": {}\n}}",
                     end_of_message_id(options));
}

std::string synth_tokenizer_config(const SynthOptions& options) {
  Json tokens = Json::object();
  for (const auto& [offset, name] : kSpecialNames) {
    const bool marker = offset >= 3 && offset <= 5;  // as the release has it (SPEC 9.2)
    tokens[std::to_string(first_special(options) + offset)] = {
        {"content", name}, {"lstrip", false},      {"normalized", false},
        {"rstrip", false}, {"single_word", false}, {"special", !marker}};
  }
  const Json config = {{"added_tokens_decoder", std::move(tokens)},
                       {"bos_token", "[BOS]"},
                       {"eos_token", "[EOS]"},
                       {"unk_token", "[UNK]"},
                       {"pad_token", "[PAD]"},
                       {"clean_up_tokenization_spaces", false},
                       {"model_max_length", 1048576},
                       {"tokenizer_class", "TikTokenTokenizer"}};
  return config.dump(2);
}

std::string synth_ranks(const SynthOptions& options) {
  std::string file;
  int rank = 0;
  // Adds a token, and tells whether there is room for more.
  const auto add = [&](std::string_view token) {
    fmt::format_to(std::back_inserter(file), "{} {}\n", base64(token), rank++);
    return rank < first_special(options);
  };
  bool room = true;
  for (const char byte : byte_order()) room = add({&byte, 1});
  const auto bytes = merge_order();
  const auto pairs = merge_pairs(bytes);
  for (std::size_t i = 0; i < pairs.size() && room; ++i) {
    room = add(std::string{pairs[i].first, pairs[i].second});
  }
  for (std::size_t i = 0; room; ++i) {
    const auto& [first, second] = pairs[i / bytes.size()];
    room = add(std::string{first, second, bytes[i % bytes.size()]});
  }
  return file;
}

}  // namespace sluice::engine
