// Promise 6, nothing lost and nothing silent: damaged weights and configs are named, never
// computed.
#include <cstring>

#include "engine/checkpoint_copy.h"

namespace sluice::engine {
namespace {

const std::vector<std::int32_t> kPrompt = {3, 141, 59, 26, 53, 58};
const std::string kLayers = "language_model.model.layers.";

Result<std::vector<float>> logits_of(const CheckpointCopy& copy) {
  SLUICE_ASSIGN(const auto engine, copy.open());
  SLUICE_ASSIGN(Trace result, trace(*engine, kPrompt));
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

TEST(BadModel, Promise6ANanInTheTrunkNamesTheLayer) {
  const CheckpointCopy copy("k3-tiny");
  copy.change_tensor(kLayers + "5.self_attn.o_proj.weight", [](std::vector<char>& bytes) {
    bytes[0] = '\xff';
    bytes[1] = '\x7f';
  });
  const std::string message = complaint(copy, ErrorKind::number);
  EXPECT_NE(message.find("layer 5"), std::string::npos) << message;
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
  const auto refused = trace(**engine, std::vector<std::int32_t>(65, 3));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::memory);
  EXPECT_NE(refused.error().message.find("64"), std::string::npos);
}

}  // namespace
}  // namespace sluice::engine
