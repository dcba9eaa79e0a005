#include "text/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "text/log_probabilities.h"

namespace sluice::text {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Sampler make(const SamplingOptions& options) { return Sampler::create(options).value(); }

std::vector<std::size_t> count(Sampler sampler, const std::vector<float>& logits, int draws) {
  std::vector<std::size_t> counts(logits.size());
  for (int i = 0; i < draws; ++i)
    ++counts.at(static_cast<std::size_t>(sampler.next(logits).value()));
  return counts;
}

// The probabilities that the options ask for, worked out the plain way.
std::vector<double> expected(const std::vector<float>& logits, const SamplingOptions& options) {
  std::vector<std::size_t> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return logits[a] > logits[b]; });
  if (options.top_k > 0)
    order.resize(std::min(order.size(), static_cast<std::size_t>(options.top_k)));
  const auto weight = [&](std::size_t id) {
    return std::exp(static_cast<double>((logits[id] - logits[order[0]]) / options.temperature));
  };
  double total = 0;
  for (const auto id : order) total += weight(id);
  std::vector<double> result(logits.size());
  double before = 0;
  double kept = 0;
  for (const auto id : order) {
    if (before >= static_cast<double>(options.top_p) * total) break;
    before += weight(id);
    if (weight(id) < static_cast<double>(options.min_p)) continue;
    result[id] = weight(id);
    kept += weight(id);
  }
  for (double& p : result) p /= kept;
  return result;
}

// The draws fit the probabilities (chi-square, 99.99 %), and none is outside of what is kept.
void check_distribution(const std::vector<float>& logits, SamplingOptions options, int draws) {
  options.seed = 12345;
  const auto probabilities = expected(logits, options);
  const auto counts = count(make(options), logits, draws);
  double chi_square = 0;
  int freedom = -1;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (probabilities[id] == 0) {
      EXPECT_EQ(counts[id], 0u) << "token " << id << " was filtered out";
      continue;
    }
    const double mean = probabilities[id] * draws;
    if (mean < 1e-3) {
      EXPECT_LE(counts[id], 1u);
      continue;
    }
    chi_square +=
        (static_cast<double>(counts[id]) - mean) * (static_cast<double>(counts[id]) - mean) / mean;
    ++freedom;
  }
  // Wilson-Hilferty: the cube root of chi-square over its freedom is nearly normal.
  if (freedom < 1) return;
  const double spread = 2.0 / (9.0 * freedom);
  const double z = (std::cbrt(chi_square / freedom) - (1 - spread)) / std::sqrt(spread);
  EXPECT_LT(z, 3.72) << "chi-square " << chi_square << " with " << freedom << " degrees of freedom";
}

const std::vector<float> kLogits = {1.5f, -0.25f, 3.0f,  3.0f,   0.0f,
                                    2.0f, -4.0f,  2.75f, -25.0f, 1.0f};

TEST(Sampler, DrawsFromTheDistributionOfTheLogits) {
  check_distribution(kLogits, {}, 1'000'000);
  check_distribution(kLogits, {.temperature = 0.5f}, 200'000);
  check_distribution(kLogits, {.temperature = 3.0f}, 200'000);
}

TEST(Sampler, DrawsOnlyWhatTheFiltersKeep) {
  check_distribution(kLogits, {.top_k = 1}, 10'000);
  check_distribution(kLogits, {.top_k = 4}, 200'000);
  check_distribution(kLogits, {.top_p = 0.7f}, 200'000);
  check_distribution(kLogits, {.top_p = 1e-6f}, 10'000);
  check_distribution(kLogits, {.min_p = 0.3f}, 200'000);
  check_distribution(kLogits, {.min_p = 1.0f}, 10'000);
  check_distribution(kLogits, {.temperature = 1.7f, .top_k = 7, .top_p = 0.9f, .min_p = 0.2f},
                     200'000);
  check_distribution(kLogits, {.top_k = 1000, .top_p = 0.999f}, 200'000);
}

TEST(Sampler, TopPCountsWhatTopKLeft) {
  // Of all tokens the first has 0.25, of the two that top_k leaves one half: enough for top_p.
  const std::vector<float> logits(4, 1.0f);
  const auto counts = count(make({.top_k = 2, .top_p = 0.5f}), logits, 1'000);
  EXPECT_EQ(counts[0], 1'000u);
}

TEST(Sampler, ATopPOfZeroKeepsOne) {
  EXPECT_EQ(count(make({.top_p = 0.0f}), kLogits, 1'000)[2], 1'000u);
  EXPECT_EQ(count(make({.top_p = 0.0f}), {1, 1, 1}, 1'000)[0], 1'000u);
}

TEST(Sampler, GreedyIsTheHighestLogitWithTheLowestId) {
  for (const SamplingOptions& options : {SamplingOptions{.greedy = true, .temperature = 2.0f},
                                         SamplingOptions{.temperature = 0.0f}}) {
    Sampler sampler = make(options);
    EXPECT_EQ(sampler.next(kLogits).value(), 2);
    EXPECT_EQ(sampler.next(std::vector<float>{-1, -1, -1}).value(), 0);
    EXPECT_EQ(sampler.next(std::vector<float>{-0.0f, 0.0f}).value(), 0);
    EXPECT_EQ(sampler.next(std::vector<float>{-3.4e38f, -3.3e38f}).value(), 1);
  }
}

TEST(Sampler, AmongEqualLogitsTheLowerIdIsKept) {
  const std::vector<float> logits = {0, 1, 1, 1, 0};
  EXPECT_EQ(count(make({.top_k = 2}), logits, 1'000)[3], 0u);
  EXPECT_EQ(count(make({.top_p = 0.5f}), logits, 1'000)[3], 0u);
}

TEST(Sampler, TheSameSeedGivesTheSameTokens) {
  // Fixed numbers: they must not change with the compiler, the library or the processor.
  Sampler sampler = make({.temperature = 1.5f, .top_p = 0.98f, .seed = 42});
  std::string tokens;
  for (int i = 0; i < 24; ++i) tokens += std::to_string(sampler.next(kLogits).value());
  EXPECT_EQ(tokens, "333029375717332237493079");
  std::set<std::string> different;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Sampler other = make({.seed = seed});
    std::string text;
    for (int i = 0; i < 24; ++i) text += std::to_string(other.next(kLogits).value());
    different.insert(text);
  }
  EXPECT_EQ(different.size(), 20u);
}

TEST(Sampler, GoesOnAfterWhatIsKnown) {
  for (const float temperature : {0.0f, 1.0f}) {
    const SamplingOptions options = {
        .temperature = temperature, .seed = 9, .presence_penalty = 0.5f, .frequency_penalty = 0.3f};
    Sampler whole = make(options);
    Sampler resumed = make(options);
    for (int i = 0; i < 12; ++i) resumed.replay(whole.next(kLogits).value());
    for (int i = 0; i < 12; ++i)
      EXPECT_EQ(resumed.next(kLogits).value(), whole.next(kLogits).value());
  }
}

TEST(Sampler, BadLogitsAreAnErrorAndGiveNoToken) {
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    for (const bool greedy : {false, true}) {
      std::vector<float> logits = kLogits;
      logits[7] = bad;
      const auto token = make({.greedy = greedy}).next(logits);
      ASSERT_FALSE(token);
      EXPECT_EQ(token.error().kind, ErrorKind::number);
      EXPECT_NE(token.error().message.find("token 7"), std::string::npos);
      EXPECT_FALSE(make({.greedy = greedy}).next(std::vector<float>(3, bad)));
    }
  }
  EXPECT_FALSE(make({}).next({}));
}

TEST(Sampler, ExtremeLogitsAndTemperaturesAreNoTrouble) {
  const std::vector<float> wide = {-3.4e38f, 3.4e38f, 0.0f};
  for (const float temperature : {1e-45f, 1e-30f, 1.0f, 1e30f, 3.4e38f}) {
    for (const int top_k : {0, 2}) {
      Sampler sampler = make({.temperature = temperature, .top_k = top_k, .top_p = 0.9f});
      for (int i = 0; i < 100; ++i) EXPECT_TRUE(sampler.next(wide));
    }
  }
  EXPECT_EQ(count(make({}), wide, 100)[1], 100u);
}

TEST(Sampler, RefusesOptionsByName) {
  const auto refused = [](const SamplingOptions& options, const std::string& name) {
    const auto status = validate(options);
    return !status && status.error().kind == ErrorKind::usage &&
           status.error().message.starts_with(name) && !Sampler::create(options);
  };
  for (const float bad : {-0.1f, kNan, kInfinity, -kInfinity}) {
    EXPECT_TRUE(refused({.temperature = bad}, "temperature")) << bad;
    EXPECT_TRUE(refused({.top_p = bad}, "top_p")) << bad;
    EXPECT_TRUE(refused({.min_p = bad}, "min_p")) << bad;
  }
  EXPECT_TRUE(refused({.top_k = -1}, "top_k"));
  EXPECT_TRUE(refused({.top_p = -0.01f}, "top_p"));
  EXPECT_TRUE(refused({.top_p = 1.01f}, "top_p"));
  EXPECT_TRUE(refused({.min_p = 1.01f}, "min_p"));
  EXPECT_TRUE(validate({}));
}

TEST(Sampler, HoldsOneBufferForAVocabulary) {
  Sampler greedy = make({.greedy = true});
  Sampler sampler = make({.top_k = 10});
  const std::vector<float> logits(163'840, 0.0f);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(greedy.next(logits) && sampler.next(logits));
  EXPECT_EQ(greedy.memory_bytes(), sizeof(Sampler));
  EXPECT_EQ(sampler.memory_bytes(), sizeof(Sampler) + 8 * logits.size());
}

TEST(Sampler, BiasMovesLogitsBeforeAnythingElse) {
  SamplingOptions options;
  options.greedy = true;
  options.bias = {{2, 1.5f}, {7, 100.0f}};  // id 7 is none of these
  EXPECT_EQ(make(options).next(std::vector<float>{1, 2, 1}), 2);
  options.bias = {{1, -100.0f}};
  EXPECT_EQ(make(options).next(std::vector<float>{1, 2, 1}), 0);
}

TEST(Sampler, PenaltiesCountWhatWasDrawn) {
  const std::vector<float> logits = {3.0f, 2.5f, 0.0f};
  SamplingOptions options;
  options.greedy = true;
  options.frequency_penalty = 0.4f;
  Sampler frequency = make(options);
  // 3.0 | 2.6 | 2.2 -> 2.5 ...: each draw of a token costs it 0.4.
  std::vector<std::int32_t> drawn;
  for (int i = 0; i < 5; ++i) drawn.push_back(*frequency.next(logits));
  EXPECT_EQ(drawn, (std::vector<std::int32_t>{0, 0, 1, 0, 1}));
  options.frequency_penalty = 0;
  options.presence_penalty = 0.6f;
  Sampler presence = make(options);
  drawn.clear();
  for (int i = 0; i < 4; ++i) drawn.push_back(*presence.next(logits));
  EXPECT_EQ(drawn, (std::vector<std::int32_t>{0, 1, 0, 0})) << "once, however often it was drawn";
}

TEST(LogProbability, IsTheLogarithmOfTheSoftmax) {
  const std::vector<float> logits = {1, 3, 2, 3};
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit);
  const TokenLogProbability found = log_probability(logits, 2, 3);
  EXPECT_EQ(found.id, 2);
  EXPECT_NEAR(found.value, 2 - std::log(sum), 1e-6);
  ASSERT_EQ(found.likeliest.size(), 3u);
  EXPECT_EQ(found.likeliest[0].first, 1);  // of equal ones the lower id
  EXPECT_EQ(found.likeliest[1].first, 3);
  EXPECT_EQ(found.likeliest[2].first, 2);
  EXPECT_NEAR(found.likeliest[0].second, 3 - std::log(sum), 1e-6);
  EXPECT_EQ(log_probability(logits, 0, 99).likeliest.size(), 4u);
  EXPECT_TRUE(log_probability(logits, 0, 0).likeliest.empty());
}

}  // namespace
}  // namespace sluice::text
