// The config: every field understood or refused by name.
#include "model/kimi_config.h"

#include <gtest/gtest.h>

#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include "model/golden_config.h"

namespace sluice::model {
namespace {

/// What parsing says to the changed config of k3-tiny; "" when it has nothing to say.
std::string complaint(const std::function<void(nlohmann::ordered_json& config)>& change) {
  auto config = config_of("k3-tiny");
  change(config);
  const auto parsed = parse_kimi_config(config.dump());
  if (parsed) return "";
  EXPECT_EQ(parsed.error().kind, ErrorKind::model_files);
  return parsed.error().message;
}

TEST(KimiConfig, ReadsK3) {
  const auto config = parse_kimi_config(config_of("k3-tiny").dump());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->tensor_prefix, "language_model.");
  EXPECT_EQ(config->layers, 9u);
  EXPECT_EQ(config->moe.router.experts, 16u);
  EXPECT_EQ(config->moe.shared_width, 64u);
  EXPECT_EQ(config->glu.kind, kernels::Glu::Kind::situ);
  EXPECT_TRUE(config->kda.has_lower_bound);
  EXPECT_EQ(config->residual_block, 4u);
}

TEST(KimiConfig, ReadsKimiLinearWithItsOwnDefaults) {
  const auto config = parse_kimi_config(config_of("kl-tiny").dump());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->tensor_prefix, "");
  EXPECT_FALSE(config->kda.has_lower_bound);
  EXPECT_FALSE(config->kda.full_rank_gate);
  EXPECT_EQ(config->mla.query_rank, 0u);
  EXPECT_FALSE(config->mla.output_gate);
  EXPECT_EQ(config->moe.latent, 0u);
  EXPECT_EQ(config->residual_block, 0u);
  EXPECT_EQ(config->glu.kind, kernels::Glu::Kind::silu);
}

TEST(KimiConfig, LayerListsCountFromOne) {  // SPEC traps 11 and 12
  const auto config = parse_kimi_config(config_of("k3-tiny").dump());
  ASSERT_TRUE(config);
  const std::vector<bool> kda = {true, true, true, false, true, true, true, false, false};
  EXPECT_EQ(config->is_kda, kda);
}

TEST(KimiConfig, LayerListsMustNameEachLayerOnce) {
  for (const auto& lists : std::vector<std::pair<std::vector<int>, std::vector<int>>>{
           {{1, 2, 3, 5, 6, 7}, {4, 8}},            // one layer in neither
           {{1, 2, 3, 4, 5, 6, 7}, {4, 8, 9}},      // one in both
           {{0, 1, 2, 3, 5, 6, 7}, {4, 8, 9}},      // counted from zero
           {{1, 2, 3, 5, 6, 7, 10}, {4, 8, 9}}}) {  // beyond the end
    EXPECT_NE(complaint([&](auto& config) {
                auto& linear = config["text_config"]["linear_attn_config"];
                linear["kda_layers"] = lists.first;
                linear["full_attn_layers"] = lists.second;
              }).find("exactly once"),
              std::string::npos);
  }
}

TEST(KimiConfig, HeadsOfTheTwoKindsComeFromTheirOwnScopes) {
  auto config = config_of("k3-tiny");
  config["text_config"]["linear_attn_config"]["num_heads"] = 7;
  const auto parsed = parse_kimi_config(config.dump());
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->kda.heads, 7u);
  EXPECT_EQ(parsed->mla.heads, 4u);
}

TEST(KimiConfig, AMissingFieldIsAnErrorNotADefault) {
  for (const char* field : {"hidden_size",
                            "num_hidden_layers",
                            "vocab_size",
                            "rms_norm_eps",
                            "intermediate_size",
                            "hidden_act",
                            "num_attention_heads",
                            "kv_lora_rank",
                            "qk_nope_head_dim",
                            "qk_rope_head_dim",
                            "v_head_dim",
                            "mla_use_nope",
                            "num_experts",
                            "num_experts_per_token",
                            "moe_intermediate_size",
                            "first_k_dense_replace",
                            "moe_renormalize",
                            "routed_scaling_factor",
                            "linear_attn_config",
                            "max_position_embeddings"}) {
    const std::string message =
        complaint([&](auto& config) { config["text_config"].erase(field); });
    EXPECT_NE(
        message.find(field == std::string("max_position_embeddings") ? "model_max_length" : field),
        std::string::npos)
        << field << ": " << message;
  }
}

TEST(KimiConfig, WhatIsNotSupportedIsRefusedByName) {
  const std::vector<std::pair<const char*, nlohmann::ordered_json>> refused = {
      {"hidden_act", "gelu"},
      {"mla_use_nope", false},
      {"tie_word_embeddings", true},
      {"num_nextn_predict_layers", 1},
      {"rope_scaling", {{"type", "yarn"}}},
      {"moe_router_activation_func", "tanh"},
      {"topk_method", "greedy"},
      {"num_key_value_heads", 2},
      {"num_experts_per_token", 17},
      {"hidden_size", -1},
      {"hidden_size", 96.5},
      {"hidden_size", "96"},
      {"vocab_size", 1e30},
      {"rms_norm_eps", 0},
      {"eos_token_id", "x"},
      {"eos_token_id", 512},
      {"a_field_of_the_future", 1},
  };
  for (const auto& [field, value] : refused) {
    const std::string message =
        complaint([&, name = field, v = value](auto& config) { config["text_config"][name] = v; });
    EXPECT_NE(message.find(field), std::string::npos) << field << ": " << message;
  }
}

TEST(KimiConfig, MoreGroupsThanTheRouterHasRoomForAreRefused) {
  const std::string message = complaint([](auto& config) {
    auto& text = config["text_config"];
    text["num_experts"] = text["num_expert_group"] = text["topk_group"] = 2048;
  });
  EXPECT_NE(message.find("num_expert_group: expected a whole number from 1 to 1024"),
            std::string::npos)
      << message;
}

TEST(KimiConfig, BoilerplateOfAnotherKindIsRefusedByNameWithWhatWasFound) {
  const std::vector<std::pair<const char*, nlohmann::ordered_json>> refused = {
      {"/text_config/use_grouped_topk", "yes"},
      {"/text_config/dtype", 16},
      {"/text_config/torch_dtype", {"bfloat16"}},
      {"/text_config/bos_token_id", "x"},
      {"/text_config/pad_token_id", 1.5},
      {"/text_config/use_cache", 1},
      {"/text_config/rope_theta", "10000"},
      {"/text_config/temperature", "hot"},
      {"/text_config/do_sample", "false"},
      {"/text_config/suppress_tokens", 7},
      {"/text_config/id2label", 7},
      {"/text_config/architectures", "KimiLinearForCausalLM"},
      {"/text_config/eos_token_id", {163586}},
      {"/text_config/quantization_config/ignore", "lm_head"},
      {"/text_config/quantization_config/config_groups/group_0/targets", "Linear"},
      {"/text_config/quantization_config/config_groups/group_0/weights/observer", 5},
      {"/text_config/quantization_config", 5},
      {"/text_config", 5},
      {"/vision_config", "none"},
      {"/media_placeholder_token_id", "<|media|>"},
      {"/image_placeholder", 5},
      {"/dtype", false},
      {"/auto_map", "AutoModel"},
  };
  for (const auto& [pointer, value] : refused) {
    const std::string message = complaint([&, at = pointer, v = value](auto& config) {
      config[nlohmann::ordered_json::json_pointer(at)] = v;
    });
    const std::string field = std::string(pointer).substr(std::string(pointer).rfind('/') + 1);
    EXPECT_NE(message.find(field + ": expected "), std::string::npos) << pointer << ": " << message;
    const std::string found = value.is_array() ? "a list" : value.dump();
    EXPECT_NE(message.find("found " + found), std::string::npos) << pointer << ": " << message;
  }
}

TEST(KimiConfig, BoilerplateMayBeNullOrAbsent) {
  for (const char* field : {"dtype", "bos_token_id", "use_grouped_topk", "architectures"}) {
    EXPECT_EQ(complaint([&](auto& config) { config["text_config"][field] = nullptr; }), "");
    EXPECT_EQ(complaint([&](auto& config) { config["text_config"].erase(field); }), "");
  }
}

TEST(KimiConfig, TheReleasedConfigIsUnderstood) {
  std::ifstream in(std::string(SLUICE_SOURCE_DIR) + "/tests/golden/k3-config.json");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto config = parse_kimi_config(text);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->layers, 93u);
}

TEST(KimiConfig, AnotherQuantizationIsRefused) {
  EXPECT_NE(complaint([](auto& config) {
              auto& q = config["text_config"]["quantization_config"];
              q["config_groups"]["group_0"]["weights"]["group_size"] = 16;
            }).find("group_size"),
            std::string::npos);
  EXPECT_NE(complaint([](auto& config) {
              config["text_config"]["quantization_config"]["format"] = "nvfp4-pack-quantized";
            }).find("format"),
            std::string::npos);
}

TEST(KimiConfig, AllFaultsAreListedAtOnce) {
  const std::string message = complaint([](auto& config) {
    config["text_config"]["hidden_act"] = "gelu";
    config["text_config"].erase("kv_lora_rank");
    config["text_config"]["surprise"] = true;
  });
  for (const char* field : {"hidden_act", "kv_lora_rank", "surprise"}) {
    EXPECT_NE(message.find(field), std::string::npos) << message;
  }
}

TEST(KimiConfig, ANameThatStandsTwiceIsRefused) {
  const std::string text = config_of("k3-tiny").dump();
  const std::size_t at = text.find("\"hidden_size\"");
  ASSERT_NE(at, std::string::npos);
  const auto config = parse_kimi_config(std::string(text).insert(at, "\"hidden_size\":64,"));
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().message.find("\"hidden_size\" stands twice"), std::string::npos)
      << config.error().message;
}

TEST(KimiConfig, SurvivesAnyCutOfTheText) {
  const std::string text = config_of("k3-tiny").dump();
  for (std::size_t length = 0; length < text.size(); length += 13) {
    EXPECT_FALSE(parse_kimi_config(text.substr(0, length)));
  }
}

}  // namespace
}  // namespace sluice::model
