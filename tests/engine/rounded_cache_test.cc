// --kv-type over a long answer: what is rounded stays near what is exact, position by position as
// tokens are decoded, and the same run gives the same tokens.
#include <algorithm>
#include <cmath>

#include "engine/golden.h"
#include "kernels/ops.h"

namespace sluice::engine {
namespace {

constexpr std::size_t kTokens = 200;
constexpr kernels::WeightFormat kFormats[] = {
    kernels::WeightFormat::f32, kernels::WeightFormat::bf16, kernels::WeightFormat::q8_0};

/// A run of kTokens passes of one position after a prompt.
struct Decoded {
  std::vector<std::int32_t> ids;  // chosen, each as the likeliest
  std::vector<float> logits;      // [kTokens, vocabulary]
};

Result<Decoded> decode(const EngineOptions& options, const std::string& name,
                       const std::vector<std::int32_t>& forced = {}) {
  SLUICE_ASSIGN(const auto engine, open_engine(name, options));
  SLUICE_ASSIGN(const auto sequence, engine->new_sequence());
  Decoded run;
  std::vector<std::int32_t> next = {3, 14, 15, 9, 26, 5, 35};
  while (run.ids.size() < kTokens) {
    SLUICE_ASSIGN(const auto logits, engine->feed(*sequence, next));
    run.logits.insert(run.logits.end(), logits.begin(), logits.end());
    run.ids.push_back(static_cast<std::int32_t>(kernels::argmax(logits.data(), logits.size())));
    next = {forced.empty() ? run.ids.back() : forced[run.ids.size() - 1]};
  }
  return run;
}

EngineOptions options_with(kernels::WeightFormat format) {
  EngineOptions options;
  options.cache_format = format;
  return options;
}

/// Squares of the differences over squares, for the positions from `first` on.
double relative_error(const std::vector<float>& found, const std::vector<float>& exact,
                      std::size_t first) {
  double error = 0;
  double size = 0;
  for (std::size_t i = exact.size() * first / kTokens; i < exact.size(); ++i) {
    error += std::pow(static_cast<double>(found[i]) - exact[i], 2);
    size += std::pow(static_cast<double>(exact[i]), 2);
  }
  return error / size;
}

class RoundedCache : public ::testing::TestWithParam<const char*> {};

TEST_P(RoundedCache, GreedyTokensAreTheSameInEveryRun) {
  for (const auto format : kFormats) {
    SCOPED_TRACE(kernels::cache_format_name(format));
    EngineOptions options = options_with(format);
    const auto first = decode(options, GetParam());
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_TRUE(std::ranges::all_of(first->logits, [](float x) { return std::isfinite(x); }));
    options.threads = 1;
    options.chunk = 3;
    options.lookahead = 0;
    const auto second = decode(options, GetParam());
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->ids, first->ids);
    EXPECT_TRUE(second->logits == first->logits);
  }
}

TEST_P(RoundedCache, ErrorsDoNotPileUp) {
  const auto exact = decode({}, GetParam());
  ASSERT_TRUE(exact) << exact.error().message;
  // Where a router is nearly undecided, a rounded state picks another expert.
  const bool is_mixture = (*open_engine(GetParam()))->shape().experts > 0;
  for (const auto format : {kernels::WeightFormat::bf16, kernels::WeightFormat::q8_0}) {
    SCOPED_TRACE(kernels::cache_format_name(format));
    // The same text as the exact run's, whatever this one would have chosen.
    const auto found = decode(options_with(format), GetParam(), exact->ids);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_FALSE(found->logits == exact->logits) << "nothing was rounded";
    for (const std::size_t from : {std::size_t{0}, kTokens / 2, kTokens - 20}) {
      EXPECT_LT(relative_error(found->logits, exact->logits, from), is_mixture ? 0.1 : 1e-3)
          << "from token " << from;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, RoundedCache,
                         ::testing::Values("k3-tiny", "llama-tiny", "gemma3-tiny",
                                           "mistral-window-tiny", "deepseek-tiny", "gpt-oss-tiny"),
                         [](const auto& test) { return test_name(test.param); });

}  // namespace
}  // namespace sluice::engine
