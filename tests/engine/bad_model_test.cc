// Promise 6, nothing lost and nothing silent: damaged weights and configs are named, never
// computed.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "engine/checkpoint_copy.h"

namespace sluice::engine {
namespace {

const std::string kLayers = "language_model.model.layers.";

Result<std::vector<float>> logits_of(const CheckpointCopy& copy) {
  SLUICE_ASSIGN(const auto engine, copy.open());
  std::vector<std::int32_t> prompt = kShortPrompt;
  const auto ids = static_cast<std::int32_t>(engine->shape().vocabulary);
  for (std::int32_t& token : prompt) token %= ids;
  SLUICE_ASSIGN(Trace result, trace(*engine, prompt));
  return std::move(result.logits);
}

/// The message of what opening or running the copy ends with.
std::string complaint(const CheckpointCopy& copy, ErrorKind kind) {
  const auto logits = logits_of(copy);
  if (logits) return "no complaint";
  EXPECT_EQ(logits.error().kind, kind) << logits.error().message;
  return logits.error().message;
}

void set_scale_bytes(std::vector<char>& bytes) { bytes[bytes.size() / 2] = '\xff'; }

TEST(BadModel, Promise6AScaleByteThatIsNoNumberNamesLayerAndExpert) {
  const CheckpointCopy copy("k3-tiny");
  for (int expert = 0; expert < 16; ++expert) {
    copy.change_tensor(
        fmt::format("{}2.block_sparse_moe.experts.{}.w2.weight_scale", kLayers, expert),
        set_scale_bytes);
  }
  const std::string message = complaint(copy, ErrorKind::number);
  EXPECT_NE(message.find("layer 2, expert"), std::string::npos) << message;
  EXPECT_NE(message.find("255"), std::string::npos) << message;
}

TEST(BadModel, Promise6AScaleByteOfGgufsMxfp4ThatIsNoNumberNamesLayerAndExpert) {
  const CheckpointCopy copy("gguf-gpt-oss-tiny");
  copy.change_tensor("blk.1.ffn_down_exps.weight", [](std::vector<char>& bytes) {
    constexpr std::size_t kBlock = 17;
    for (std::size_t block = 0; block < bytes.size(); block += kBlock) {
      bytes[block] = '\xff';
      // Only zeros: nothing but the scale tells that these are no numbers.
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(block + 1), kBlock - 1, '\0');
    }
  });
  const std::string message = complaint(copy, ErrorKind::number);
  EXPECT_NE(message.find("layer 1, expert"), std::string::npos) << message;
}

TEST(BadModel, Promise6ANanInTheTrunkNamesTheLayer) {
  const CheckpointCopy copy("k3-tiny");
  copy.change_tensor(kLayers + "5.self_attn.o_proj.weight", [](std::vector<char>& bytes) {
    bytes[0] = '\xff';
    bytes[1] = '\x7f';
  });
  const std::string message = complaint(copy, ErrorKind::number);
  EXPECT_NE(message.find("layer 5"), std::string::npos) << message;
}

TEST(BadModel, Promise6ARouterThatGivesNoNumbersIsNamed) {
  const CheckpointCopy copy("qwen3moe-tiny");
  copy.change_tensor("model.layers.2.mlp.gate.weight", [](std::vector<char>& bytes) {
    bytes[0] = '\xc0';
    bytes[1] = '\x7f';
  });
  const std::string message = complaint(copy, ErrorKind::number);
  EXPECT_NE(message.find("layer 2: what tensor model.layers.2.mlp.gate.weight"), std::string::npos)
      << message;
}

TEST(BadModel, Promise6ANumberOfAVectorThatIsNoneNamesItsTensor) {
  // Each would be swallowed further on: by a choice, an exponential, a sigmoid.
  for (const auto& [model, tensor, number] :
       {std::tuple{"k3-tiny", kLayers + "2.block_sparse_moe.gate.e_score_correction_bias", NAN},
        std::tuple{"k3-tiny", kLayers + "1.self_attn.A_log", INFINITY},
        std::tuple{"k3-tiny", kLayers + "1.self_attn.dt_bias", -INFINITY}}) {
    const CheckpointCopy copy(model);
    copy.change_tensor(tensor, [n = number](std::vector<char>& bytes) {
      std::memcpy(bytes.data(), &n, sizeof(n));
    });
    const std::string message = complaint(copy, ErrorKind::number);
    EXPECT_NE(message.find("tensor " + tensor + " "), std::string::npos) << message;
  }
  const CheckpointCopy copy("gpt-oss-tiny");
  const std::string bias = "model.layers.1.mlp.router.bias";
  copy.change_tensor(bias, [](std::vector<char>& bytes) { bytes[0] = '\xff', bytes[1] = '\x7f'; });
  const std::string message = complaint(copy, ErrorKind::number);
  EXPECT_NE(message.find("tensor " + bias), std::string::npos) << message;
}

TEST(BadModel, Promise6WhatAllExpertsOfALayerWorkOnIsNotBlamedOnOne) {
  const CheckpointCopy copy("k3-tiny");
  copy.change_tensor(kLayers + "3.block_sparse_moe.routed_expert_down_proj.weight",
                     [](std::vector<char>& bytes) {
                       bytes[0] = '\xc0';
                       bytes[1] = '\x7f';
                     });
  const std::string message = complaint(copy, ErrorKind::number);
  EXPECT_NE(message.find("layer 3: what tensor "), std::string::npos) << message;
  EXPECT_NE(message.find("routed_expert_down_proj"), std::string::npos) << message;
}

/// The first `count` numbers of a BF16 matrix.
void make_infinite(std::vector<char>& bytes, std::size_t count, bool negative) {
  for (std::size_t i = 0; i < count; ++i) {
    bytes[2 * i] = '\x80';
    bytes[2 * i + 1] = negative ? '\xff' : '\x7f';
  }
}

TEST(BadModel, Promise6WhatIsInfiniteIsNamedBeforeAnythingSwallowsIt) {
  // An activation, a sigmoid, a decay, a softmax would each make a number of it again.
  for (const std::string tensor :
       {"0.mlp.gate_proj.weight", "0.mlp.up_proj.weight",
        "2.block_sparse_moe.shared_experts.gate_proj.weight",
        "2.block_sparse_moe.shared_experts.up_proj.weight", "1.self_attn.b_proj.weight",
        "1.self_attn.f_a_proj.weight", "1.self_attn.f_b_proj.weight", "1.self_attn.g_proj.weight",
        "3.self_attn.kv_b_proj.weight", "3.self_attn.g_proj.weight"}) {
    for (const bool negative : {false, true}) {
      const CheckpointCopy copy("k3-tiny");
      copy.change_tensor(kLayers + tensor,
                         [&](std::vector<char>& bytes) { make_infinite(bytes, 1, negative); });
      const std::string message = complaint(copy, ErrorKind::number);
      EXPECT_NE(message.find("what tensor " + kLayers + tensor), std::string::npos)
          << tensor << ": " << message;
    }
  }
}

TEST(BadModel, Promise6AnInfiniteEmbeddingIsNamed) {
  const CheckpointCopy copy("k3-tiny");
  copy.change_tensor("language_model.model.embed_tokens.weight", [](std::vector<char>& bytes) {
    make_infinite(bytes, bytes.size() / 2, true);
  });
  const std::string message = complaint(copy, ErrorKind::number);
  EXPECT_NE(message.find("the embedding of token "), std::string::npos) << message;
}

TEST(BadModel, Promise6OfHeadsInTwoPartsTheDamagedOneIsNamed) {
  for (const std::string tensor : {"blk.1.attn_k_b.weight", "blk.1.attn_v_b.weight"}) {
    const CheckpointCopy copy("gguf-deepseek-tiny");
    copy.change_tensor(tensor, [](std::vector<char>& bytes) {
      bytes[0] = '\0';  // the scale of the first block, as float16: infinite
      bytes[1] = '\x7c';
    });
    const std::string message = complaint(copy, ErrorKind::number);
    EXPECT_NE(message.find(tensor), std::string::npos) << message;
  }
}

TEST(BadModel, Promise6ANanInOneExpertOfAMixtureNamesIt) {
  const CheckpointCopy copy("mixtral-tiny");
  for (int expert = 0; expert < 6; ++expert) {
    copy.change_tensor(fmt::format("model.layers.1.block_sparse_moe.experts.{}.w3.weight", expert),
                       [](std::vector<char>& bytes) {
                         bytes[0] = '\xc0';
                         bytes[1] = '\x7f';
                       });
  }
  const std::string message = complaint(copy, ErrorKind::number);
  EXPECT_NE(message.find("layer 1, expert"), std::string::npos) << message;
}

TEST(BadModel, Promise6AnExpertOfAnotherTypeOrMissingIsNamed) {
  const CheckpointCopy copy("mixtral-tiny");
  const std::string tensor = "model.layers.1.block_sparse_moe.experts.4.w2.weight";
  std::string kept;
  copy.change_header(tensor, [&](std::string& header) {
    kept = header;
    const std::size_t entry = header.find('"' + tensor + '"');
    header.replace(header.find("\"BF16\"", entry), 6, "\"F16\" ");
  });
  EXPECT_NE(complaint(copy, ErrorKind::model_files).find(tensor + ": type F16 where BF16"),
            std::string::npos);
  copy.change_header(tensor, [&](std::string& header) {
    header = kept;
    header.replace(header.find('"' + tensor + '"') + 1, 1, "X");
  });
  EXPECT_NE(complaint(copy, ErrorKind::model_files).find("tensor " + tensor + ": missing"),
            std::string::npos);
}

TEST(BadModel, Promise6ACodeOfFp8ThatIsNoNumberEndsThePass) {
  const CheckpointCopy copy("deepseek-fp8-tiny");
  const auto spoil = [](std::vector<char>& bytes) { bytes[bytes.size() / 2] = '\x7f'; };
  copy.change_tensor("model.layers.1.self_attn.kv_b_proj.weight", spoil);
  std::string message = complaint(copy, ErrorKind::number);
  EXPECT_NE(message.find("layer 1:"), std::string::npos) << message;
  const CheckpointCopy other("deepseek-fp8-tiny");
  for (int expert = 0; expert < 8; ++expert) {
    other.change_tensor(fmt::format("model.layers.2.mlp.experts.{}.up_proj.weight", expert), spoil);
  }
  message = complaint(other, ErrorKind::number);
  EXPECT_NE(message.find("layer 2, expert"), std::string::npos) << message;
}

TEST(BadModel, Promise6ScalesThatAreMissingAreNamed) {
  for (const auto& [model, tensor] :
       {std::pair{"deepseek-fp8-tiny", "model.layers.0.self_attn.q_proj.weight_scale_inv"},
        std::pair{"deepseek-fp8-tiny", "model.layers.1.mlp.experts.3.down_proj.weight_scale_inv"},
        std::pair{"kimi-k2-tiny", "model.layers.1.mlp.experts.3.down_proj.weight_scale"},
        std::pair{"gpt-oss-tiny", "model.layers.1.mlp.experts.down_proj_scales"}}) {
    const CheckpointCopy copy(model);
    copy.change_header(tensor, [&](std::string& header) {
      header.replace(header.find('"' + std::string(tensor) + '"') + 1, 1, "X");
    });
    const std::string message = complaint(copy, ErrorKind::model_files);
    EXPECT_NE(message.find(fmt::format("tensor {}: missing", tensor)), std::string::npos)
        << message;
  }
}

TEST(BadModel, Promise6ThePaddingOfTheDecayVectorIsNeverRead) {
  const CheckpointCopy copy("k3-tiny");
  const auto before = logits_of(copy);
  ASSERT_TRUE(before) << before.error().message;
  copy.change_tensor(kLayers + "0.self_attn.A_log", [](std::vector<char>& bytes) {
    ASSERT_GT(bytes.size(), 4u * 4u);  // stored longer than its four heads
    std::memset(bytes.data() + 16, 0xff, bytes.size() - 16);
  });
  const auto after = logits_of(copy);
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(*before, *after);
}

TEST(BadModel, Promise6EveryTensorMatters) {
  for (const char* name : {"k3-tiny", "kl-tiny"}) {
    const CheckpointCopy copy(name);
    const auto before = logits_of(copy);
    ASSERT_TRUE(before) << before.error().message;
    std::vector<std::string> tensors;
    const auto checkpoint = store::Checkpoint::open(copy.folder());
    ASSERT_TRUE(checkpoint);
    checkpoint->for_each([&](std::string_view tensor, const store::Tensor&) {
      const bool trunk = tensor.find(".experts.") == std::string_view::npos;
      const bool text = tensor.find("vision_tower") == std::string_view::npos &&
                        tensor.find("mm_projector") == std::string_view::npos;
      // Before layer 0's attention there is one residual source: a mix of one is that one.
      const bool idle = tensor.find("layers.0.self_attention_res_") != std::string_view::npos;
      if (trunk && text && !idle) tensors.emplace_back(tensor);
    });
    ASSERT_GT(tensors.size(), 100u);
    for (const std::string& tensor : tensors) {
      std::vector<char> kept;
      copy.change_tensor(tensor, [&](std::vector<char>& bytes) {
        kept = bytes;
        // Another sign and half the exponent's step for every number: finite and different.
        for (std::size_t i = 1; i < bytes.size(); i += 2)
          bytes[i] = static_cast<char>(bytes[i] ^ 0x80);
      });
      const auto after = logits_of(copy);
      ASSERT_TRUE(after) << tensor << ": " << after.error().message;
      EXPECT_NE(*before, *after) << tensor << " does not influence the logits";
      copy.change_tensor(tensor, [&](std::vector<char>& bytes) { bytes = kept; });
    }
  }
}

TEST(BadModel, Promise6AConfigFieldThatIsNotUnderstoodIsRefusedByName) {
  const CheckpointCopy copy("k3-tiny");
  copy.change_config([](auto& config) { config["text_config"]["rope_flavour"] = "spicy"; });
  EXPECT_NE(complaint(copy, ErrorKind::model_files).find("rope_flavour"), std::string::npos);
}

TEST(BadModel, Promise6AShapeThatTheConfigDoesNotGiveNamesTheTensor) {
  const CheckpointCopy copy("k3-tiny");
  copy.change_config([](auto& config) { config["text_config"]["moe_intermediate_size"] = 64; });
  const std::string message = complaint(copy, ErrorKind::model_files);
  EXPECT_NE(message.find("experts.0.w1.weight_packed"), std::string::npos) << message;
}

TEST(BadModel, Promise6FewerExpertsThanTheFileHoldsIsRefused) {
  const CheckpointCopy copy("k3-tiny");
  copy.change_config([](auto& config) { config["text_config"]["num_hidden_layers"] = 8; });
  const std::string message = complaint(copy, ErrorKind::model_files);
  EXPECT_NE(message.find("full_attn_layers"), std::string::npos) << message;
}

TEST(BadModel, Promise6ATensorThatNobodyUsesIsRefused) {
  const CheckpointCopy copy("k3-tiny");
  copy.change_config([](auto& config) {
    auto& text = config["text_config"];
    text["num_hidden_layers"] = 8;
    text["linear_attn_config"]["full_attn_layers"] = {4, 8};
  });
  const std::string message = complaint(copy, ErrorKind::model_files);
  EXPECT_NE(message.find("layers.8."), std::string::npos) << message;
}

/// The tensors of a checkpoint that `wanted` picks.
std::vector<std::string> tensors_of(const CheckpointCopy& copy,
                                    const std::function<bool(std::string_view name)>& wanted) {
  std::vector<std::string> names;
  const auto checkpoint = store::Checkpoint::open(copy.folder());
  EXPECT_TRUE(checkpoint);
  checkpoint->for_each([&](std::string_view name, const store::Tensor&) {
    if (wanted(name)) names.emplace_back(name);
  });
  return names;
}

TEST(BadModel, Promise6AnyOneTensorThatIsMissingIsNamed) {
  const CheckpointCopy copy("k3-tiny");
  const auto tensors = tensors_of(copy, [](std::string_view name) {
    // Of the experts those of one in the middle: the others are looked for in the same way.
    return name.starts_with("language_model.") &&
           (name.find(".experts.") == std::string_view::npos ||
            name.find("layers.4.block_sparse_moe.experts.9.") != std::string_view::npos);
  });
  ASSERT_GT(tensors.size(), 150u);
  for (const std::string& tensor : tensors) {
    std::string kept;
    copy.change_header(tensor, [&](std::string& header) {
      kept = header;
      header.replace(header.find('"' + tensor + '"') + 1, 1, "X");
    });
    const auto engine = copy.open();
    ASSERT_FALSE(engine) << tensor;
    EXPECT_EQ(engine.error().kind, ErrorKind::model_files);
    EXPECT_NE(engine.error().message.find("tensor " + tensor + ": missing"), std::string::npos)
        << engine.error().message;
    copy.change_header("X" + tensor.substr(1), [&](std::string& header) { header = kept; });
  }
}

TEST(BadModel, Promise6AScaleOfAnotherTypeIsRefusedNotMultiplied) {
  const CheckpointCopy copy("k3-tiny");
  const std::string tensor = kLayers + "2.block_sparse_moe.experts.5.w1.weight_scale";
  copy.change_header(tensor, [&](std::string& header) {
    const std::size_t entry = header.find('"' + tensor + '"');
    const std::size_t type = header.find("\"U8\"", entry);
    ASSERT_LT(type, header.find('}', entry));
    header.replace(type, 4, "\"I8\"");
  });
  const std::string message = complaint(copy, ErrorKind::model_files);
  EXPECT_NE(message.find(tensor + ": type I8 where U8 is expected"), std::string::npos) << message;
}

TEST(BadModel, Promise6WhatTextLeavesOutIsNeverRead) {
  const CheckpointCopy copy("k3-tiny");
  const auto before = logits_of(copy);
  ASSERT_TRUE(before) << before.error().message;
  const auto vision = tensors_of(copy, [](std::string_view name) {
    return name.starts_with("vision_tower.") || name.starts_with("mm_projector.");
  });
  ASSERT_EQ(vision.size(), 3u);
  for (const std::string& tensor : vision) {
    copy.change_tensor(tensor, [](std::vector<char>& bytes) {
      std::fill(bytes.begin(), bytes.end(), '\xff');  // NaN in every type
    });
  }
  const auto after = logits_of(copy);
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(*before, *after);
}

TEST(BadModel, Promise6ATokenOutsideTheVocabularyIsRefused) {
  const CheckpointCopy copy("k3-tiny");
  const auto engine = copy.open();
  ASSERT_TRUE(engine);
  for (const std::int32_t token : {-1, 512, 1 << 30}) {
    const auto refused = trace(**engine, {3, token});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  }
}

TEST(BadModel, Promise6APromptBeyondTheContextIsRefusedNotCut) {
  const CheckpointCopy copy("k3-tiny");
  const auto engine = copy.open();
  ASSERT_TRUE(engine);
  for (const std::size_t fits : {63, 64}) {
    EXPECT_TRUE(trace(**engine, std::vector<std::int32_t>(fits, 3)));
  }
  for (const std::size_t tokens : {65, 640}) {
    const std::uint64_t bytes_read = (*engine)->statistics().bytes_read();
    const auto refused = trace(**engine, std::vector<std::int32_t>(tokens, 3));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::memory);
    EXPECT_NE(refused.error().message.find(fmt::format("{} tokens", tokens)), std::string::npos);
    EXPECT_NE(refused.error().message.find("context of 64"), std::string::npos);
    EXPECT_EQ((*engine)->statistics().bytes_read(), bytes_read) << "refused before any work";
  }
}

}  // namespace
}  // namespace sluice::engine
