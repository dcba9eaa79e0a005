// Everything between the matrices: norms, activations, attention, the KDA recurrence, the router.
// All in float32. Each function has a plain C++ twin in kernels::scalar that the tests compare
// with. Results depend on the arguments alone, never on threads, chunking or alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::kernels {

/// out = weight * x / sqrt(mean(x^2) + epsilon), over n numbers. out may be x. (SPEC 5)
void rms_norm(const float* x, const float* weight, std::size_t n, float epsilon, float* out);

/// out = scale * x / sqrt(sum(x^2) + epsilon). out may be x. (SPEC 6.3)
void l2_norm(const float* x, std::size_t n, float epsilon, float scale, float* out);

/// y += x
void add(const float* x, std::size_t n, float* y);
/// y += a * x
void add_scaled(float a, const float* x, std::size_t n, float* y);
/// out = 1 / (1 + e^-x). out may be x.
void sigmoid(const float* x, std::size_t n, float* out);
/// y *= sigmoid(gate)
void multiply_sigmoid(const float* gate, std::size_t n, float* y);

/// Sum of products in one fixed order.
float dot(const float* a, const float* b, std::size_t n);

/// True when every number is finite.
bool all_finite(const float* x, std::size_t n);

/// SwiGLU, SiTU-GLU (SPEC 6.7), GEGLU (arXiv 2002.05202), and gpt-oss's SwiGLU with limits.
struct Glu {
  enum class Kind : std::uint8_t {
    silu,  ///< silu(gate) * up
    situ,
    gelu,  ///< gelu(gate) * up, the Gaussian's integral by a hyperbolic tangent (arXiv 1606.08415)
    limited,  ///< gate * sigmoid(beta * gate) * (up + 1), gate up to the limit, up within +- it
  };
  Kind kind = Kind::silu;
  float beta = 1.0f;         ///< situ: cap of the gate; limited: gain of the sigmoid
  float linear_beta = 0.0f;  ///< situ: cap of `up`; 0: `up` as it is
  float limit = 7.0f;        ///< limited
};
/// out[i] = glu(gate[i], up[i]). out may be gate or up.
void glu(const Glu& kind, const float* gate, const float* up, std::size_t n, float* out);

/// Causal short convolution and SiLU for one position (SPEC 6.3). history: [taps-1, channels],
/// oldest first, shifted and given x as its newest row; taps_by_channel: [channels, taps];
/// x, out: [channels]; out may be x.
void short_convolution(float* history, const float* taps_by_channel, std::size_t channels,
                       std::size_t taps, const float* x, float* out);

/// Decay gate of one KDA head (SPEC 6.4), as the factor exp(g): raw = f + dt_bias per channel.
/// With a lower bound: exp(bound * sigmoid(exp(a_log) * raw)); without (has_bound false):
/// exp(-exp(a_log) * softplus(raw)). raw, out: [n]; out may be raw.
void kda_decay(const float* raw, std::size_t n, float a_log, bool has_bound, float bound,
               float* out);

/// One step of the gated delta rule for one head (SPEC 6.4): S <- diag(decay) S;
/// u = beta * (v - S^T k); S <- S + k u^T; out = S^T q. state: [dim key, dim value] row-major;
/// q, k, v, decay, out: [dim]; scratch: [dim].
void kda_step(float* state, const float* q, const float* k, const float* v, const float* decay,
              float beta, std::size_t dim, float* scratch, float* out);

/// In place softmax of n >= 1 numbers.
void softmax(float* x, std::size_t n);
/// The same as if `sink` were one number more, whose share goes nowhere (arXiv 2309.17453).
void softmax_with_sink(float* x, std::size_t n, float sink);

/// What a head attends to: `count` keys and values, row by row.
struct KeysAndValues {
  const float* keys;    ///< [count, key_width]
  const float* values;  ///< [count, value_width], rows value_stride floats apart
  std::size_t count;
  std::size_t key_width;
  std::size_t value_stride;
  std::size_t value_width;
};

/// Attention of several heads of one position, all of which see the same keys and values, read once
/// for all of them: score_s = (query . key_s) * scale; out = sum_s softmax(score)_s * value_s. Each
/// head's bits are those of its own call. queries: [heads, key_width]; scores: [heads, count]
/// scratch; out: [heads, value_width].
void attention_heads(const float* queries, std::size_t heads, const KeysAndValues& seen,
                     float scale, float* scores, float* out);

/// Attention of one head and one position over the latent cache, projections absorbed (SPEC 6.5):
/// score_s = (query . cache_s) * scale over `width` numbers; out = sum_s softmax(score)_s *
/// cache_s[0 .. value_width). cache: [count, width] row-major; query: [width]; scores: [count]
/// scratch; out: [value_width].
void latent_attention(const float* query, const float* cache, std::size_t count, std::size_t width,
                      std::size_t value_width, float scale, float* scores, float* out);

/// latent_attention() for several heads of one position, reading the cache once for all of them.
/// Each head's bits are those of its own call. queries: [heads, width]; scores: [heads, count]
/// scratch; out: [heads, value_width].
void latent_attention_heads(const float* queries, std::size_t heads, const float* cache,
                            std::size_t count, std::size_t width, std::size_t value_width,
                            float scale, float* scores, float* out);

/// The most sources that are mixed; K3 has 9.
inline constexpr std::size_t kMostResidualSources = 256;

/// AttnRes (SPEC 6.2): softmax over `count` sources scored by their normalised selves.
/// sources: at most kMostResidualSources pointers to [n]; direction: [n], norm weight times
/// projection; out: [n], may not be a source.
void attention_residual(std::span<const float* const> sources, const float* direction,
                        std::size_t n, float epsilon, float* out);

/// The most groups that experts are chosen by.
inline constexpr std::size_t kMostRouterGroups = 1024;

/// Router settings (SPEC 6.6).
struct Router {
  /// What a logit becomes, to be chosen and weighed by.
  enum class Scores : std::uint8_t {
    sigmoid,
    softmax,         ///< over all experts
    picked_softmax,  ///< chosen by the logits as they are, weighed by a softmax over the picks
  };

  std::size_t experts = 0;
  std::size_t top_k = 0;
  std::size_t groups = 1;
  std::size_t top_groups = 1;
  Scores scores = Scores::sigmoid;
  bool renormalize = true;  ///< the weights of the picks are divided by their sum
  float scale = 1.0f;
};
/// Picks top_k experts for one position from `logits` [experts] (overwritten by the scores), with
/// selection bias `bias` [experts], null for none. Equal choices: the lower id first. ids, weights:
/// [top_k], best choice first.
void route(const Router& router, float* logits, const float* bias, std::int32_t* ids,
           float* weights);

/// Index of the largest number, the lowest index on ties. n >= 1, no NaN.
std::size_t argmax(const float* x, std::size_t n);

}  // namespace sluice::kernels
