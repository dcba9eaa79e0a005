// From logits to the next token.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/token_mask.h"

namespace sluice::text {

/// How the next token is chosen. First the logits are changed: a token's bias is added, and for a
/// token that was drawn c > 0 times, presence_penalty + c * frequency_penalty is taken off. Then
/// the filters work one after another, each on what the one before it left: temperature, top_k,
/// top_p, min_p.
struct SamplingOptions {
  bool greedy = false;       ///< always the highest logit; the filters are not looked at
  float temperature = 1.0f;  ///< >= 0; logits are divided by it; 0 is greedy
  int top_k = 0;             ///< keep the k highest logits, 0: all
  float top_p = 1.0f;      ///< in [0, 1]; keep the fewest tokens, but one, that together have this
                           ///< probability
  float min_p = 0.0f;      ///< in [0, 1]; drop what is less likely than this times the likeliest
  std::uint64_t seed = 0;  ///< of the random numbers
  std::vector<std::pair<std::int32_t, float>> bias = {};  ///< by token id
  float presence_penalty = 0;
  float frequency_penalty = 0;

  bool is_greedy() const { return greedy || temperature == 0; }  ///< no random number is taken
};

/// Fails with ErrorKind::usage and the name of the first option that is out of range.
Status validate(const SamplingOptions& options);

/// Draws tokens. The same options and the same logits give the same tokens on every machine: random
/// numbers, exponentials and the order of additions depend on no library and no SIMD width. Among
/// equal logits the lower id comes first.
class Sampler {
 public:
  static Result<Sampler> create(const SamplingOptions& options);

  /// The next token for logits [vocabulary]. Takes one random number unless greedy. With `allowed`,
  /// one of these; to the filters there are no others.
  /// Fails with ErrorKind::number and the id if a logit is NaN or infinite.
  Result<std::int32_t> next(std::span<const float> logits, const TokenMask* allowed = nullptr);

  /// Goes on as if next() had just given `id`: for an answer whose beginning is known.
  void replay(std::int32_t id);

  /// Bytes held now: unless greedy, 8 per token of the vocabulary from the first draw on, and 4
  /// more with a bias or penalties.
  std::uint64_t memory_bytes() const;

 private:
  struct Candidate {
    float logit;
    std::int32_t id;
  };
  explicit Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}
  Result<std::int32_t> choose(std::span<const float> logits, const TokenMask* allowed);
  void collect(std::span<const float> logits, const TokenMask* allowed);
  bool changes_logits() const;
  std::span<const float> changed(std::span<const float> logits);
  double weight(const Candidate& candidate) const;
  void keep_top_k();
  void keep_top_p();
  void keep_min_p();
  std::int32_t draw();

  SamplingOptions options_;
  std::mt19937_64 random_;                       // the standard fixes every number it gives
  std::vector<Candidate> candidates_;            // of this draw, in an order that the options fix
  float highest_ = 0;                            // logit of this draw
  std::vector<float> changed_;                   // logits of this draw after bias and penalties
  std::map<std::int32_t, std::uint32_t> drawn_;  // how often each token was drawn
};

}  // namespace sluice::text
