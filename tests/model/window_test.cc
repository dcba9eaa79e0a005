// Layers that look back on a window keep no more than it, and caches are as large as their format.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/buffer.h"
#include "model/decoder_state.h"
#include "model/registry.h"
#include "store/model_files.h"

namespace sluice::model {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Architecture> imagine_golden(const std::string& name) {
  auto made = imagine_architecture(fs::path(SLUICE_SOURCE_DIR) / "tests/golden" / name /
                                   "checkpoint/config.json");
  EXPECT_TRUE(made) << made.error().message;
  return made ? std::move(*made) : nullptr;
}

Result<std::unique_ptr<Architecture>> imagine_text(const std::string& text) {
  const store::TempFolder folder;
  return imagine_architecture(folder.write("config.json", text));
}

TEST(Window, StateDoesNotGrowBeyondIt) {
  const auto mistral = imagine_golden("mistral-window-tiny");
  ASSERT_NE(mistral, nullptr);
  EXPECT_LT(mistral->state_bytes(32), mistral->state_bytes(69));
  EXPECT_EQ(mistral->state_bytes(1000), mistral->state_bytes(1 << 20));
  const LayerState local = {.caches = 2, .width = 16, .window = 6};
  const LayerState global = {.caches = 2, .width = 16};
  EXPECT_EQ(DecoderState::bytes(std::vector{local}, 10'000),
            2 * 16 * sizeof(float) * (6 - 1 + LayerCaches::kAppendedAtOnce));
  EXPECT_EQ(DecoderState::bytes(std::vector{global}, 10'000), 2 * 16 * sizeof(float) * 10'000);
}

TEST(Window, OfGemmaIsOnFiveOfSixLayers) {
  const auto gemma = imagine_golden("gemma3-seeing-tiny");
  ASSERT_NE(gemma, nullptr);
  const std::vector<std::string> kinds = {"GQA of 7, dense", "GQA of 7, dense", "GQA of 7, dense",
                                          "GQA of 7, dense", "GQA of 7, dense", "GQA, dense"};
  EXPECT_EQ(gemma->shape().layer_kinds, kinds);
}

TEST(Window, StateOfK3IsTheLatentOfItsMlaLayersAndTheStateOfItsKdaLayers) {
  const auto made =
      imagine_architecture(fs::path(SLUICE_SOURCE_DIR) / "tests/golden/k3-config.json");
  ASSERT_TRUE(made) << made.error().message;
  const Architecture& k3 = **made;
  constexpr std::uint64_t kMlaLayers = 24;
  constexpr std::uint64_t kKdaLayers = 69;
  constexpr std::uint64_t kHeads = 96;
  // A position: the latent and the shared key of each MLA layer, nothing per head.
  constexpr std::uint64_t kPosition = kMlaLayers * (512 + 64) * sizeof(float);
  constexpr std::uint64_t kPerHead = kMlaLayers * kHeads * (128 + 64 + 128) * sizeof(float);
  EXPECT_EQ(kPerHead / kPosition, 53u) << "what keys and values of all heads would take";
  // A sequence: each KDA head's 128 by 128, and the last three inputs of its convolutions.
  constexpr std::uint64_t kFixed = kKdaLayers * kHeads * (128 * 128 + 3 * 3 * 128) * sizeof(float);
  for (const std::size_t context : {0u, 1u, 64u, 4096u, 1u << 20}) {
    EXPECT_EQ(k3.state_bytes(context), Buffer::charge_for(kFixed + context * kPosition)) << context;
  }
}

TEST(Window, CachesAreAsLargeAsTheirFormat) {
  const auto made =
      imagine_architecture(fs::path(SLUICE_SOURCE_DIR) / "tests/golden/k3-config.json");
  ASSERT_TRUE(made) << made.error().message;
  Architecture* const k3 = made->get();
  constexpr std::size_t kMany = 1 << 20;
  const auto grown = [&] { return k3->state_bytes(kMany) - k3->state_bytes(0); };
  const std::uint64_t exact = grown();
  k3->cache_as(kernels::WeightFormat::bf16);
  EXPECT_EQ(grown(), exact / 2);
  k3->cache_as(kernels::WeightFormat::q8_0);
  EXPECT_EQ(grown(), exact / 128 * 34);  // 34 bytes for 32 numbers
}

TEST(Window, ConfigurationsOfGemmaInTheFieldLeaveOutDefaults) {
  const auto made = imagine_text(
      R"({"architectures":["Gemma3ForConditionalGeneration"],"boi_token_index":255999,
          "eoi_token_index":256000,"eos_token_id":[1,106],"image_token_index":262144,
          "initializer_range":0.02,"mm_tokens_per_image":256,"model_type":"gemma3",
          "text_config":{"hidden_size":2560,"intermediate_size":10240,"model_type":"gemma3_text",
            "num_hidden_layers":34,"rope_scaling":{"factor":8.0,"rope_type":"linear"},
            "sliding_window":1024},
          "torch_dtype":"bfloat16","transformers_version":"4.50.0.dev0",
          "vision_config":{"hidden_size":1152}})");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ((*made)->shape().vocabulary, 262'208u);
  EXPECT_EQ((*made)->shape().max_positions, 131'072u);
  EXPECT_EQ((*made)->shape().end_ids, (std::vector<std::int32_t>{1, 106}));
  EXPECT_EQ((*made)->shape().layer_kinds[5], "GQA, dense");
}

TEST(Window, WhatIsNotSupportedIsRefusedByName) {
  const std::string start =
      R"({"model_type":"gemma3_text","hidden_size":32,"intermediate_size":48,"vocab_size":80,
          "num_hidden_layers":2,)";
  const std::pair<const char*, const char*> wrong[] = {
      {R"("final_logit_softcapping":30.0})", "final_logit_softcapping"},
      {R"("use_bidirectional_attention":true})", "use_bidirectional_attention"},
      {R"("hidden_activation":"relu"})", "hidden_activation"},
      {R"("layer_types":["full_attention"]})", "layer_types"},
      {R"("layer_types":["full_attention","chunked_attention"]})", "chunked_attention"},
      {R"("rope_scaling":{"rope_type":"longrope","factor":2.0}})", "longrope"},
      {R"("altup_num_inputs":4})", "altup_num_inputs"},
  };
  for (const auto& [end, name] : wrong) {
    const auto made = imagine_text(start + end);
    ASSERT_FALSE(made) << end;
    EXPECT_EQ(made.error().kind, ErrorKind::model_files);
    EXPECT_NE(made.error().message.find(name), std::string::npos) << made.error().message;
  }
}

}  // namespace
}  // namespace sluice::model
