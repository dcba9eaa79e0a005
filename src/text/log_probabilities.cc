#include "text/log_probabilities.h"

#include <algorithm>
#include <cmath>

namespace sluice::text {

TokenLogProbability log_probability(std::span<const float> logits, std::int32_t id,
                                    std::size_t top) {
  const double highest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - highest);
  const double all = highest + std::log(sum);
  const auto value = [&](std::int32_t token) {
    return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(token)]) - all);
  };
  TokenLogProbability result = {id, value(id)};
  // The few best, kept in order: cheaper than sorting ids of a whole vocabulary.
  std::vector<std::int32_t> best;
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float left = logits[static_cast<std::size_t>(a)];
    const float right = logits[static_cast<std::size_t>(b)];
    return left != right ? left > right : a < b;
  };
  for (std::int32_t token = 0; top > 0 && static_cast<std::size_t>(token) < logits.size();
       ++token) {
    if (best.size() == top && !before(token, best.back())) continue;
    if (best.size() == top) best.pop_back();
    best.insert(std::upper_bound(best.begin(), best.end(), token, before), token);
  }
  for (const std::int32_t token : best) result.likeliest.emplace_back(token, value(token));
  return result;
}

}  // namespace sluice::text
