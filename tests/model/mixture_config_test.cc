// The configs of mixtures of experts: every field understood or refused by name.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "model/llama_config.h"

namespace sluice::model {
namespace {

nlohmann::json config_of(const std::string& name) {
  std::ifstream in(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/" + name +
                   "/checkpoint/config.json");
  return nlohmann::json::parse(in);
}

/// What parsing says to the changed config; "" when it has nothing to say.
std::string complaint(const std::string& name,
                      const std::function<void(nlohmann::json& config)>& change) {
  auto config = config_of(name);
  change(config);
  const auto parsed = parse_llama_config(config.dump());
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

}  // namespace
}  // namespace sluice::model
