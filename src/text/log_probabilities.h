// How likely the model held a token to be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sluice::text {

/// In place of a logarithm, of a token that the model did not choose after others: the first.
inline constexpr float kNoLogProbability = 1;

/// Natural logarithms of softmax(logits), before temperature, filters, bias and penalties.
struct TokenLogProbability {
  std::int32_t id = 0;
  float value = 0;
  std::vector<std::pair<std::int32_t, float>> likeliest = {};  ///< descending; equal ones by id
};

/// Of token `id` and of the `top` likeliest. `logits`: [vocabulary], finite.
TokenLogProbability log_probability(std::span<const float> logits, std::int32_t id,
                                    std::size_t top);

}  // namespace sluice::text
