// Rotary position embeddings (RoFormer, arXiv 2104.09864) and the ways to stretch them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::model {

struct RopeConfig {
  enum class Scaling : std::uint8_t {
    none,
    linear,  ///< positions divided by `factor`
    /// From `original_positions` on the base grows with the position: each position is rotated as
    /// if it were the last one, whatever follows it.
    dynamic,
    llama3,  ///< long wavelengths divided by `factor`, short ones as they are, a ramp between
    yarn,    ///< the same by number of rotations, and the attention sharpened (arXiv 2309.00071)
  };

  std::size_t dim = 0;  ///< of a head, all of it rotated
  double base = 10000;
  /// Which numbers of a head make a pair: neighbours (GGUF's llama), or number i and i + dim / 2.
  bool neighbours = false;
  Scaling scaling = Scaling::none;
  double factor = 1;
  double low_frequency_factor = 1;   ///< llama3
  double high_frequency_factor = 4;  ///< llama3
  double original_positions = 0;     ///< dynamic, llama3, yarn: the context before stretching
  double beta_fast = 32;             ///< yarn: rotations from which on nothing is stretched
  double beta_slow = 1;              ///< yarn: rotations up to which all is
  bool truncate = true;              ///< yarn: whole numbers as the borders of the ramp
  double attention_factor = 0;       ///< yarn: of cosine and sine; 0: 1 + ln(factor) / 10
  double score_factor = 1;           ///< yarn: of attention's scores, where a model has it there
};

class Rope {
 public:
  /// `divisors`: by pair, what its frequency is divided by on top of the scaling (GGUF's
  /// rope_freqs), or empty.
  Rope(const RopeConfig& config, std::span<const float> divisors);

  std::size_t pairs() const { return frequencies_.size(); }
  /// Numbers of a position's table.
  std::size_t table_floats() const { return 2 * pairs(); }

  /// Cosines, then sines, of a position: table [2 * pairs()].
  void angles(std::size_t position, float* table) const;

  /// Rotates one head in place.
  void rotate(const float* table, float* head) const;

 private:
  float frequency(std::size_t pair, std::size_t position) const;

  RopeConfig config_;
  float attention_factor_ = 1;
  std::vector<float> frequencies_;
};

}  // namespace sluice::model
