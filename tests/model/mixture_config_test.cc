// The configs of mixtures of experts: every field understood or refused by name.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "model/deepseek_config.h"
#include "model/golden_config.h"
#include "model/gpt_oss_config.h"
#include "model/llama_config.h"

namespace sluice::model {
namespace {

/// What parsing says to the changed config; "" when it has nothing to say.
template <class Config = LlamaConfig>
std::string complaint(const std::string& name,
                      const std::function<void(nlohmann::ordered_json& config)>& change,
                      Result<Config> (*parse)(const std::string& text) = &parse_llama_config) {
  auto config = config_of(name);
  change(config);
  const auto parsed = parse(config.dump());
  if (parsed) return "";
  EXPECT_EQ(parsed.error().kind, ErrorKind::model_files);
  return parsed.error().message;
}

/// Whether the one fault is that field's.
void expect_fault_of(const std::string& field, const std::string& message) {
  EXPECT_NE(message.find("config.json: " + field + ":"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

using Scores = kernels::Router::Scores;

TEST(MixtureConfig, ReadsQwen3Moe) {
  const auto config = parse_llama_config(config_of("qwen3moe-tiny").dump());
  ASSERT_TRUE(config) << config.error().message;
  const kernels::Router& router = config->moe.router;
  EXPECT_EQ(router.experts, 8u);
  EXPECT_EQ(router.top_k, 3u);
  EXPECT_EQ(router.scores, Scores::softmax);
  EXPECT_TRUE(router.renormalize);
  EXPECT_EQ(config->moe.width, 24u);
  EXPECT_TRUE(config->attention.head_norm);
  EXPECT_EQ(config->moe_layers, (std::vector<bool>{true, false, true}));
}

TEST(MixtureConfig, ReadsTheFieldsOfOlderReleases) {
  auto json = config_of("qwen3moe-tiny");
  json["num_experts"] = json["num_local_experts"];
  json.erase("num_local_experts");
  json.erase("mlp_only_layers");
  json["decoder_sparse_step"] = 2;
  json.erase("rope_parameters");
  json["rope_theta"] = 1e6;
  const auto config = parse_llama_config(json.dump());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->moe.router.experts, 8u);
  EXPECT_EQ(config->moe_layers, (std::vector<bool>{false, true, false}));
}

TEST(MixtureConfig, ReadsMixtral) {
  const auto config = parse_llama_config(config_of("mixtral-tiny").dump());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->moe.router.experts, 6u);
  EXPECT_EQ(config->moe.router.scores, Scores::softmax);
  EXPECT_TRUE(config->moe.router.renormalize);
  EXPECT_EQ(config->moe.width, config->width);
  EXPECT_FALSE(config->attention.head_norm);
}

TEST(MixtureConfig, RefusesByNameWhatDoesNotFit) {
  for (const char* name : {"qwen3moe-tiny", "mixtral-tiny"}) {
    const auto with = [&](const char* field, const nlohmann::json& value) {
      return complaint(name, [&](auto& config) { config[field] = value; });
    };
    expect_fault_of("num_experts_per_tok", with("num_experts_per_tok", 9));
    expect_fault_of("num_experts_per_tok", with("num_experts_per_tok", nullptr));
    expect_fault_of("router_aux_loss_coef", with("router_aux_loss_coef", "much"));
    expect_fault_of("hidden_act", with("hidden_act", "relu"));
    expect_fault_of("sliding_window", with("sliding_window", "wide"));
    expect_fault_of("shared_expert_intermediate_size",
                    with("shared_expert_intermediate_size", 128));
  }
  expect_fault_of("mlp_only_layers", complaint("qwen3moe-tiny", [](auto& config) {
                    config["mlp_only_layers"] = {-1};
                  }));
  expect_fault_of("moe_intermediate_size", complaint("qwen3moe-tiny", [](auto& config) {
                    config.erase("moe_intermediate_size");
                  }));
}

TEST(MixtureConfig, RefusesHeadsOfNoNumbers) {
  const std::string message = complaint("mixtral-tiny", [](auto& config) {
    config.erase("head_dim");
    config["hidden_size"] = 16;
    config["num_attention_heads"] = config["num_key_value_heads"] = 32;
  });
  EXPECT_NE(message.find("a head of 0 numbers"), std::string::npos) << message;
}

TEST(MixtureConfig, ReadsDeepseekV3) {
  const auto config = parse_deepseek_config(config_of("deepseek-tiny").dump());
  ASSERT_TRUE(config) << config.error().message;
  const kernels::Router& router = config->moe.router;
  EXPECT_EQ(router.experts, 8u);
  EXPECT_EQ(router.groups, 4u);
  EXPECT_EQ(router.top_groups, 2u);
  EXPECT_EQ(router.scores, Scores::sigmoid);
  EXPECT_FLOAT_EQ(router.scale, 2.5f);
  EXPECT_EQ(config->moe.shared_width, 32u);
  EXPECT_FALSE(config->is_moe(0));
  EXPECT_TRUE(config->is_moe(1));
  EXPECT_TRUE(config->rope.neighbours);
  const double sharpening = 0.1 * 1.2 * std::log(8.0) + 1;
  EXPECT_NEAR(config->mla.sharpening, sharpening * sharpening, 1e-12);
  EXPECT_EQ(config->announced, DeepseekConfig::Weights::plain);
}

TEST(MixtureConfig, ReadsWhatDeepseeksReleaseSays) {
  auto json = config_of("deepseek-tiny");
  json["rope_scaling"] = {{"type", "yarn"},
                          {"factor", 40},
                          {"beta_fast", 32},
                          {"beta_slow", 1},
                          {"mscale", 1.0},
                          {"mscale_all_dim", 1.0},
                          {"original_max_position_embeddings", 4096}};
  json.erase("rope_parameters");
  json["rope_theta"] = 10000;
  json["num_nextn_predict_layers"] = 1;
  json["scoring_func"] = "sigmoid";
  json["topk_method"] = "noaux_tc";
  json["moe_layer_freq"] = 1;
  json["ep_size"] = 1;
  json["aux_loss_alpha"] = 0.001;
  json["seq_aux"] = true;
  json["quantization_config"] = {{"activation_scheme", "dynamic"},
                                 {"fmt", "e4m3"},
                                 {"quant_method", "fp8"},
                                 {"weight_block_size", {128, 128}}};
  const auto config = parse_deepseek_config(json.dump());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->rope.attention_factor, 1.0);
  EXPECT_EQ(config->drafting_layers, 1u);
  EXPECT_EQ(config->announced, DeepseekConfig::Weights::block_fp8);
  EXPECT_TRUE(config->mla.unpacks_heads);
}

TEST(MixtureConfig, RefusesByNameWhatDeepseekDoesNotHave) {
  const auto with = [](const char* field, const nlohmann::json& value) {
    return complaint(
        "deepseek-tiny", [&](auto& config) { config[field] = value; }, &parse_deepseek_config);
  };
  expect_fault_of("n_group", with("n_group", 3));
  expect_fault_of("topk_group", complaint(
                                    "deepseek-tiny",
                                    [](auto& config) {
                                      config["topk_group"] = 5;
                                      config["num_experts_per_tok"] = 2;
                                    },
                                    &parse_deepseek_config));
  expect_fault_of("num_experts_per_tok", with("num_experts_per_tok", 0));
  expect_fault_of("scoring_func", with("scoring_func", "softmax"));
  expect_fault_of("topk_method", with("topk_method", "greedy"));
  expect_fault_of("num_key_value_heads", with("num_key_value_heads", 2));
  expect_fault_of("qk_rope_head_dim", with("qk_rope_head_dim", 7));
  expect_fault_of("attention_bias", with("attention_bias", true));
  expect_fault_of("routed_scaling_factor", with("routed_scaling_factor", -1));
  expect_fault_of("moe_layer_freq", with("moe_layer_freq", 2));
  expect_fault_of("quantization_config: quant_method",
                  with("quantization_config", {{"quant_method", "awq"}}));
  expect_fault_of(
      "quantization_config: weight_block_size",
      with("quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {64, 64}}}));
  expect_fault_of("index_topk", with("index_topk", 2048));
}

TEST(MixtureConfig, ReadsGptOss) {
  const auto config = parse_gpt_oss_config(config_of("gpt-oss-tiny").dump());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->moe.router.scores, Scores::picked_softmax);
  EXPECT_TRUE(config->moe.by_turns);
  EXPECT_TRUE(config->attention.sinks);
  EXPECT_EQ(config->windows, (std::vector<std::size_t>{12, 0, 12}));
  EXPECT_FALSE(config->rope.truncate);
  EXPECT_EQ(config->glu.kind, kernels::Glu::Kind::limited);
  EXPECT_FLOAT_EQ(config->glu.beta, 1.702f);
}

TEST(MixtureConfig, RefusesByNameWhatGptOssDoesNotHave) {
  const auto with = [](const char* field, const nlohmann::json& value) {
    return complaint(
        "gpt-oss-tiny", [&](auto& config) { config[field] = value; }, &parse_gpt_oss_config);
  };
  expect_fault_of("num_experts_per_tok", with("num_experts_per_tok", 7));
  expect_fault_of("swiglu_limit", with("swiglu_limit", 0));
  expect_fault_of("hidden_act", with("hidden_act", "gelu"));
  expect_fault_of("num_key_value_heads, head_dim", with("head_dim", 15));
  expect_fault_of("layer_types", with("layer_types", {"full_attention"}));
  expect_fault_of("quantization_config: quant_method",
                  with("quantization_config", {{"quant_method", "gptq"}}));
}

}  // namespace
}  // namespace sluice::model
