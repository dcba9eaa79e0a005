// The router's choice. Scores come from the vector kernels; choosing is plain C++, since the choice
// among some hundred experts is small next to everything else.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/ops.h"

namespace sluice::kernels {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

/// What experts are ranked by. A NaN ranks last; whoever wants an error looks for it in the logits.
float choice_of(const float* scores, const float* bias, std::size_t expert) {
  const float choice = bias == nullptr ? scores[expert] : scores[expert] + bias[expert];
  if (std::isnan(choice)) return kLowest;
  return choice;
}

/// The sum of a group's two largest choices.
float rating_of(const Router& router, const float* scores, const float* bias, std::size_t group) {
  const std::size_t size = router.experts / router.groups;
  float first = kLowest;
  float second = size > 1 ? kLowest : 0.0f;
  for (std::size_t e = group * size; e < (group + 1) * size; ++e) {
    const float choice = choice_of(scores, bias, e);
    if (choice > first) {
      if (size > 1) second = first;
      first = choice;
    } else if (size > 1 && choice > second) {
      second = choice;
    }
  }
  return first + second;
}

/// Which groups may be chosen from: the top_groups best rated, the lower group first on ties.
std::array<bool, kMostRouterGroups> allowed_groups(const Router& router, const float* scores,
                                                   const float* bias) {
  std::array<bool, kMostRouterGroups> allowed{};
  if (router.groups <= router.top_groups) {
    allowed.fill(true);
    return allowed;
  }
  std::array<float, kMostRouterGroups> rating;
  for (std::size_t g = 0; g < router.groups; ++g) rating[g] = rating_of(router, scores, bias, g);
  for (std::size_t picked = 0; picked < router.top_groups; ++picked) {
    std::size_t best = router.groups;
    for (std::size_t g = 0; g < router.groups; ++g) {
      if (!allowed[g] && (best == router.groups || rating[g] > rating[best])) best = g;
    }
    allowed[best] = true;
  }
  return allowed;
}

/// Puts an expert at its place among the `count` best so far, which are in order. Experts come by
/// rising id, so that only a strictly larger choice may pass one that is there.
void insert(std::size_t top_k, std::size_t expert, float choice, std::size_t& count,
            std::int32_t* ids, float* choices) {
  if (count == top_k && !(choice > choices[count - 1])) return;
  std::size_t at = count < top_k ? count++ : top_k - 1;
  for (; at > 0 && choice > choices[at - 1]; --at) {
    ids[at] = ids[at - 1];
    choices[at] = choices[at - 1];
  }
  ids[at] = static_cast<std::int32_t>(expert);
  choices[at] = choice;
}

void make_scores(const Router& router, float* logits) {
  switch (router.scores) {
    case Router::Scores::sigmoid:
      return sigmoid(logits, router.experts, logits);
    case Router::Scores::softmax:
      return softmax(logits, router.experts);
    case Router::Scores::picked_softmax:
      return;
  }
}

/// The weights of the picks from their scores.
void weigh(const Router& router, float* weights) {
  if (router.scores == Router::Scores::picked_softmax) softmax(weights, router.top_k);
  float sum = 0.0f;
  for (std::size_t i = 0; i < router.top_k; ++i) sum += weights[i];
  const float divisor = router.renormalize ? sum + 1e-20f : 1.0f;
  for (std::size_t i = 0; i < router.top_k; ++i) weights[i] = weights[i] / divisor * router.scale;
}

}  // namespace

void route(const Router& router, float* logits, const float* bias, std::int32_t* ids,
           float* weights) {
  const std::size_t group_size = router.experts / router.groups;
  SLUICE_CHECK(router.top_k > 0 && router.groups <= kMostRouterGroups);
  SLUICE_CHECK(router.experts == group_size * router.groups);
  SLUICE_CHECK(router.top_k <= group_size * std::min(router.groups, router.top_groups));
  make_scores(router, logits);
  const auto allowed = allowed_groups(router, logits, bias);
  std::size_t count = 0;
  for (std::size_t e = 0; e < router.experts; ++e) {
    if (!allowed[e / group_size]) continue;
    insert(router.top_k, e, choice_of(logits, bias, e), count, ids, weights);
  }
  for (std::size_t i = 0; i < router.top_k; ++i) weights[i] = logits[ids[i]];
  weigh(router, weights);
}

}  // namespace sluice::kernels
