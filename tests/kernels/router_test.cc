// The router's choice: SPEC 6.6, with ties, groups and bad numbers.
#include <algorithm>
#include <numeric>

#include "kernels/ops.h"
#include "kernels/scalar.h"
#include "kernels/support.h"

namespace sluice::kernels::test {
namespace {

struct Choice {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};

using Scores = Router::Scores;

/// Without numbers in `bias` there is none.
Choice choose(const Router& router, std::vector<float> logits, const std::vector<float>& bias) {
  Choice choice{std::vector<std::int32_t>(router.top_k), std::vector<float>(router.top_k)};
  route(router, logits.data(), bias.empty() ? nullptr : bias.data(), choice.ids.data(),
        choice.weights.data());
  return choice;
}

using Ids = std::vector<std::int32_t>;

class RouterTest : public KernelTest {};

TEST_P(RouterTest, PicksTheLargestBiasedScoresAndWeighsByUnbiasedOnes) {
  for (const Scores scores : {Scores::sigmoid, Scores::softmax}) {
    for (const bool renormalize : {true, false}) {
      const bool sigmoid_scores = scores == Scores::sigmoid;
      const Router router{896, 16, 1, 1, scores, renormalize, 2.5f};
      const std::vector<float> logits = Random(1).numbers(896, -4.0f, 4.0f);
      const std::vector<float> bias = Random(2).numbers(896, -0.2f, 0.2f);
      std::vector<double> score(896);
      double total = 0.0;
      for (std::size_t e = 0; e < 896; ++e) total += std::exp(static_cast<double>(logits[e]));
      for (std::size_t e = 0; e < 896; ++e) {
        const double power = std::exp(static_cast<double>(logits[e]));
        score[e] = sigmoid_scores ? power / (1 + power) : power / total;
      }
      Ids order(896);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return score[static_cast<std::size_t>(a)] + bias[static_cast<std::size_t>(a)] >
               score[static_cast<std::size_t>(b)] + bias[static_cast<std::size_t>(b)];
      });
      order.resize(16);
      const Choice choice = choose(router, logits, bias);
      EXPECT_EQ(choice.ids, order);
      double sum = 0.0;
      for (const std::int32_t id : order) sum += score[static_cast<std::size_t>(id)];
      for (std::size_t i = 0; i < 16; ++i) {
        const double exact =
            score[static_cast<std::size_t>(order[i])] / (renormalize ? sum : 1.0) * 2.5;
        EXPECT_NEAR(choice.weights[i], exact, 2e-6 * exact);
      }
    }
  }
}

TEST_P(RouterTest, AgreesWithItsScalarTwin) {
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    Router router;
    router.groups = std::size_t{1} << random.below(4);
    router.top_groups = 1 + random.below(router.groups);
    router.experts = router.groups * (1 + random.below(12));
    router.top_k = 1 + random.below(router.experts / router.groups * router.top_groups);
    router.scores = static_cast<Scores>(random.below(3));
    router.renormalize = random.below(2) == 0;
    std::vector<float> logits = random.numbers(router.experts, -3.0f, 3.0f);
    for (float& x : logits) x = std::round(x);  // many ties
    const std::vector<float> bias(random.below(2) == 0 ? router.experts : 0, 0.25f);
    const Choice choice = choose(router, logits, bias);
    Choice twin = choice;
    scalar::route(router, logits.data(), bias.empty() ? nullptr : bias.data(), twin.ids.data(),
                  twin.weights.data());
    EXPECT_EQ(choice.ids, twin.ids) << "round " << round;
    for (std::size_t i = 0; i < router.top_k; ++i) {
      EXPECT_NEAR(choice.weights[i], twin.weights[i], 3e-6f * twin.weights[i]);
    }
  }
}

TEST_P(RouterTest, EqualChoicesGoToTheLowerId) {
  const std::vector<float> zero(40, 0.0f);
  EXPECT_EQ(choose(Router{40, 5}, zero, zero).ids, (Ids{0, 1, 2, 3, 4}));
  std::vector<float> logits(40, 0.0f);
  logits[7] = logits[30] = 1.0f;
  EXPECT_EQ(choose(Router{40, 4}, logits, zero).ids, (Ids{7, 30, 0, 1}));
}

TEST_P(RouterTest, SaturatedScoresAreTiesToo) {
  std::vector<float> logits(20, -50.0f);
  logits[3] = 200.0f;
  logits[9] = 100.0f;  // both have the score 1
  const std::vector<float> zero(20, 0.0f);
  EXPECT_EQ(choose(Router{20, 2}, logits, zero).ids, (Ids{3, 9}));
}

TEST_P(RouterTest, OnlyTheBestGroupsAreChosenFrom) {
  // Four groups of three. Group 2 has the largest expert, but groups 0 and 3 the best pairs.
  const std::vector<float> score = {0.6f, 0.6f, 0.1f, 0.5f, 0.5f, 0.5f,
                                    0.9f, 0.1f, 0.1f, 0.7f, 0.4f, 0.2f};
  std::vector<float> logits;
  for (const float s : score) logits.push_back(std::log(s / (1 - s)));
  const std::vector<float> zero(12, 0.0f);
  EXPECT_EQ(choose(Router{12, 4, 4, 2}, logits, zero).ids, (Ids{9, 0, 1, 10}));
  EXPECT_EQ(choose(Router{12, 4, 4, 4}, logits, zero).ids, (Ids{6, 9, 0, 1}));
  EXPECT_EQ(choose(Router{12, 6, 4, 2}, logits, zero).ids, (Ids{9, 0, 1, 10, 11, 2}));
  // Equal ratings: the lower group.
  EXPECT_EQ(choose(Router{12, 2, 4, 1}, zero, zero).ids, (Ids{0, 1}));
}

TEST_P(RouterTest, TheBiasDecidesGroupsAndExpertsButNotWeights) {
  const std::vector<float> zero(8, 0.0f);
  std::vector<float> bias(8, 0.0f);
  bias[5] = 1.0f;
  bias[6] = -1.0f;
  const Choice choice = choose(Router{8, 2, 2, 1}, zero, bias);
  EXPECT_EQ(choice.ids, (Ids{5, 4}));
  EXPECT_EQ(choice.weights, (std::vector<float>{0.5f, 0.5f}));
}

TEST_P(RouterTest, OneExpertHasItsScoreOrAllTheWeight) {
  std::vector<float> logits(6, -1.0f);
  logits[2] = 0.0f;
  Router router{6, 1, 1, 1, Scores::sigmoid, false, 3.0f};
  Choice choice = choose(router, logits, {});
  EXPECT_EQ(choice.ids, (Ids{2}));
  EXPECT_EQ(choice.weights[0], 1.5f);
  router.renormalize = true;
  EXPECT_EQ(choose(router, logits, {}).weights[0], 3.0f);
}

TEST_P(RouterTest, ASoftmaxOverThePicksKnowsNoOtherExpert) {
  // Far below the best, where a softmax over all would make ties of zeros.
  std::vector<float> logits = {100.0f, -30.0f, -20.0f, -10.0f, -21.0f, 99.0f};
  const Router router{6, 4, 1, 1, Scores::picked_softmax, false, 1.0f};
  const Choice choice = choose(router, logits, {});
  EXPECT_EQ(choice.ids, (Ids{0, 5, 3, 2}));
  const double first = 1 / (1 + std::exp(-1.0));
  EXPECT_NEAR(choice.weights[0], first, 1e-6);
  EXPECT_NEAR(choice.weights[1], 1 - first, 1e-6);
  logits[1] = -1e30f;  // what is not picked has no part in it
  EXPECT_EQ(choose(router, logits, {}).weights, choice.weights);
}

TEST_P(RouterTest, AllExpertsCanBeChosen) {
  const std::vector<float> logits = Random(4).numbers(33);
  const std::vector<float> zero(33, 0.0f);
  Choice choice = choose(Router{33, 33}, logits, zero);
  std::sort(choice.ids.begin(), choice.ids.end());
  for (std::int32_t e = 0; e < 33; ++e) EXPECT_EQ(choice.ids[static_cast<std::size_t>(e)], e);
}

TEST_P(RouterTest, BadNumbersNeverMakeABadId) {
  for (const Scores scores : {Scores::sigmoid, Scores::softmax, Scores::picked_softmax}) {
    for (const std::size_t groups : {1u, 4u}) {
      std::vector<float> logits = Random(5).numbers(16);
      logits[0] = logits[5] = logits[15] = NAN;
      logits[3] = INFINITY;
      logits[8] = -INFINITY;
      const std::vector<float> zero(16, 0.0f);
      Router router{16, 4, groups, groups > 1 ? 2u : 1u, scores};
      Choice choice = choose(router, logits, zero);
      std::sort(choice.ids.begin(), choice.ids.end());
      EXPECT_EQ(std::unique(choice.ids.begin(), choice.ids.end()), choice.ids.end());
      EXPECT_GE(choice.ids.front(), 0);
      EXPECT_LT(choice.ids.back(), 16);
      if (scores != Scores::softmax && groups == 1) {
        for (const std::int32_t id : choice.ids) EXPECT_TRUE(id != 0 && id != 5 && id != 15);
      }
    }
  }
}

SLUICE_ON_ALL_TARGETS(RouterTest);

}  // namespace
}  // namespace sluice::kernels::test
