// Promise 1, exact: the model computes what the specification's reference computes.
#include "engine/golden.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops.h"

namespace sluice::engine {
namespace {

/// Of logits and hidden states; the families of transformers have float32 sums on both sides.
float tolerance(const std::string& name) {
  return name.starts_with("k3-") || name.starts_with("kl-") ? 2e-3f : 1e-3f;
}

float largest_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  float largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

class Golden : public ::testing::TestWithParam<const char*> {
 protected:
  static std::unique_ptr<Engine> open() {
    EngineOptions options;
    options.all_logits = true;
    auto engine = open_engine(GetParam(), options);
    EXPECT_TRUE(engine) << engine.error().message;
    return engine ? std::move(*engine) : nullptr;
  }
};

TEST_P(Golden, Promise1LogitsAndHiddenStatesAreTheReferences) {
  const auto engine = open();
  ASSERT_NE(engine, nullptr);
  const std::size_t hidden = engine->shape().hidden;
  const nlohmann::json golden = read_golden(GetParam());
  for (const auto& prompt : golden["prompts"]) {
    SCOPED_TRACE(prompt["name"].get<std::string>());
    const auto tokens = prompt["tokens"].get<std::vector<std::int32_t>>();
    const auto result = trace(*engine, tokens);
    ASSERT_TRUE(result) << result.error().message;
    const auto folder = golden_folder(GetParam());
    const auto logits = read_floats(folder / prompt["logits"]["file"].get<std::string>());
    EXPECT_LT(largest_difference(result->logits, logits), tolerance(GetParam()));
    std::vector<float> last;  // [layers, hidden] of the last position
    for (std::size_t layer = 0; layer < engine->shape().layers; ++layer) {
      const auto at = result->hidden.begin() +
                      static_cast<std::ptrdiff_t>(((layer + 1) * tokens.size() - 1) * hidden);
      last.insert(last.end(), at, at + static_cast<std::ptrdiff_t>(hidden));
    }
    const auto states = read_floats(folder / prompt["hidden_last"]["file"].get<std::string>());
    EXPECT_LT(largest_difference(last, states), tolerance(GetParam()));
  }
}

TEST_P(Golden, Promise1TheRouterPicksTheReferencesExperts) {
  const auto engine = open();
  ASSERT_NE(engine, nullptr);
  const nlohmann::json golden = read_golden(GetParam());
  for (const auto& prompt : golden["prompts"]) {
    SCOPED_TRACE(prompt["name"].get<std::string>());
    const auto tokens = prompt["tokens"].get<std::vector<std::int32_t>>();
    const auto result = trace(*engine, tokens);
    ASSERT_TRUE(result) << result.error().message;
    for (const auto& routes : prompt["routes"]) {
      const auto& picked = result->routes[routes["layer"].get<std::size_t>()];
      ASSERT_EQ(picked.size(), tokens.size());
      for (std::size_t position = 0; position < tokens.size(); ++position) {
        auto expected = routes["ids"][position].get<std::vector<std::int32_t>>();
        auto found = picked[position];
        std::sort(expected.begin(), expected.end());
        std::sort(found.begin(), found.end());
        EXPECT_EQ(found, expected) << "layer " << routes["layer"] << " position " << position;
      }
    }
  }
}

TEST_P(Golden, Promise1GreedyTokensAreTheReferences) {
  const auto engine = open();
  ASSERT_NE(engine, nullptr);
  const nlohmann::json golden = read_golden(GetParam());
  for (const auto& prompt : golden["prompts"]) {
    SCOPED_TRACE(prompt["name"].get<std::string>());
    const auto sequence = engine->new_sequence();
    ASSERT_TRUE(sequence);
    auto tokens = prompt["tokens"].get<std::vector<std::int32_t>>();
    std::vector<std::int32_t> greedy;
    while (greedy.size() < prompt["greedy"].size()) {
      const auto logits = engine->feed(**sequence, tokens);
      ASSERT_TRUE(logits) << logits.error().message;
      greedy.push_back(static_cast<std::int32_t>(kernels::argmax(logits->data(), logits->size())));
      tokens = {greedy.back()};
    }
    EXPECT_EQ(greedy, prompt["greedy"].get<std::vector<std::int32_t>>());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, Golden,
    ::testing::Values("k3-tiny", "k3-small", "kl-tiny", "k3-nano", "llama-tiny", "llama3-tiny",
                      "llama-linear-tiny", "llama-yarn-tiny", "mistral-tiny", "qwen2-tiny",
                      "qwen3-tiny", "gemma3-tiny", "gemma3-seeing-tiny", "gguf-gemma3-tiny",
                      "mistral-window-tiny", "qwen2-window-tiny", "llama-dynamic-tiny",
                      "gguf-plain-tiny", "gguf-blocks-tiny", "gguf-super-tiny", "mixtral-tiny",
                      "qwen3moe-tiny", "qwen3moe-unnormed-tiny", "gguf-mixtral-tiny",
                      "deepseek-tiny", "deepseek-fp8-tiny", "kimi-k2-tiny", "gpt-oss-tiny",
                      "gguf-gpt-oss-tiny", "gguf-qwen3moe-tiny", "gguf-deepseek-tiny",
                      "gguf-deepseek-whole-tiny"),
    [](const auto& test) { return test_name(test.param); });

}  // namespace
}  // namespace sluice::engine
