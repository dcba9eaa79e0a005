#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace sluice::model {
namespace {

/// Stretches a frequency by its wavelength.
double llama3_frequency(const RopeConfig& config, double frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double longest = config.original_positions / config.low_frequency_factor;
  const double shortest = config.original_positions / config.high_frequency_factor;
  if (wavelength < shortest) return frequency;
  if (wavelength > longest) return frequency / config.factor;
  const double smooth = (config.original_positions / wavelength - config.low_frequency_factor) /
                        (config.high_frequency_factor - config.low_frequency_factor);
  return (1 - smooth) * frequency / config.factor + smooth * frequency;
}

/// The pair that makes so many rotations within the original context.
double pair_of_rotations(const RopeConfig& config, double rotations) {
  return static_cast<double>(config.dim) *
         std::log(config.original_positions / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(config.base));
}

double yarn_frequency(const RopeConfig& config, double frequency, double pair) {
  double low = pair_of_rotations(config, config.beta_fast);
  double high = pair_of_rotations(config, config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(config.dim) - 1);
  if (low == high) high += 0.001;  // a step instead of a ramp
  const double stretched = std::clamp((pair - low) / (high - low), 0.0, 1.0);
  return frequency / config.factor * stretched + frequency * (1 - stretched);
}

double scaled_frequency(const RopeConfig& config, double frequency, double pair) {
  switch (config.scaling) {
    case RopeConfig::Scaling::none:
    case RopeConfig::Scaling::dynamic:  // by position
      return frequency;
    case RopeConfig::Scaling::linear:
      return frequency / config.factor;
    case RopeConfig::Scaling::llama3:
      return llama3_frequency(config, frequency);
    case RopeConfig::Scaling::yarn:
      return yarn_frequency(config, frequency, pair);
  }
  return frequency;
}

}  // namespace

Rope::Rope(const RopeConfig& config, std::span<const float> divisors) : config_(config) {
  SLUICE_CHECK(config.dim % 2 == 0);
  SLUICE_CHECK(divisors.empty() || divisors.size() == config.dim / 2);
  for (std::size_t pair = 0; pair < config.dim / 2; ++pair) {
    const double exponent = 2.0 * static_cast<double>(pair) / static_cast<double>(config.dim);
    double frequency = 1.0 / std::pow(config.base, exponent);
    frequency = scaled_frequency(config, frequency, static_cast<double>(pair));
    if (!divisors.empty()) frequency /= static_cast<double>(divisors[pair]);
    frequencies_.push_back(static_cast<float>(frequency));
  }
  if (config.scaling != RopeConfig::Scaling::yarn) return;
  const double usual = config.factor > 1 ? 0.1 * std::log(config.factor) + 1 : 1;
  attention_factor_ =
      static_cast<float>(config.attention_factor > 0 ? config.attention_factor : usual);
}

/// The base of a context as long as up to `position` (transformers' "dynamic" NTK scaling).
float Rope::frequency(std::size_t pair, std::size_t position) const {
  const double length = static_cast<double>(position) + 1;
  if (config_.scaling != RopeConfig::Scaling::dynamic || pair == 0 ||
      length <= config_.original_positions) {
    return frequencies_[pair];
  }
  const auto dim = static_cast<double>(config_.dim);
  const double stretch =
      config_.factor * length / config_.original_positions - (config_.factor - 1);
  const double exponent = 2 * static_cast<double>(pair) / dim;
  // base' = base * stretch^(dim / (dim - 2))
  return static_cast<float>(static_cast<double>(frequencies_[pair]) /
                            std::pow(stretch, exponent * dim / (dim - 2)));
}

void Rope::angles(std::size_t position, float* table) const {
  for (std::size_t pair = 0; pair < pairs(); ++pair) {
    // The angle in float32, as the models were trained; its cosine as exactly as can be.
    const float angle = static_cast<float>(position) * frequency(pair, position);
    table[pair] = static_cast<float>(std::cos(static_cast<double>(angle))) * attention_factor_;
    table[pairs() + pair] =
        static_cast<float>(std::sin(static_cast<double>(angle))) * attention_factor_;
  }
}

void Rope::rotate(const float* table, float* head) const {
  const std::size_t step = config_.neighbours ? 2 : 1;
  const std::size_t apart = config_.neighbours ? 1 : pairs();
  for (std::size_t pair = 0; pair < pairs(); ++pair) {
    float& a = head[pair * step];
    float& b = head[pair * step + apart];
    const float cosine = table[pair];
    const float sine = table[pairs() + pair];
    const float rotated = a * cosine - b * sine;
    b = b * cosine + a * sine;
    a = rotated;
  }
}

}  // namespace sluice::model
