#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/scalar.h"

namespace sluice::kernels::scalar {
namespace {

/// e^x, 0 where it would be subnormal; a NaN stays one.
float exp_of(float x) { return x < -87.33654f ? 0.0f : std::exp(x); }

float sigmoid_of(float x) {
  const float e = exp_of(-std::fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

float softplus_of(float x) { return std::max(x, 0.0f) + std::log1p(exp_of(-std::fabs(x))); }

float capped(float x, float cap) { return cap * std::tanh(x / cap); }

/// (1 + tanh(z)) / 2 is the sigmoid of 2 z, with z = sqrt(2 / pi) (x + 0.044715 x^3).
float gelu_argument(float x) { return 1.5957691216057308f * (x + 0.044715f * (x * x * x)); }

}  // namespace

float dot(const float* a, const float* b, std::size_t n) {
  float sum = 0.0f;
  for (std::size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void rms_norm(const float* x, const float* weight, std::size_t n, float epsilon, float* out) {
  const float root = std::sqrt(dot(x, x, n) / static_cast<float>(n) + epsilon);
  for (std::size_t i = 0; i < n; ++i) out[i] = weight[i] * (x[i] / root);
}

void l2_norm(const float* x, std::size_t n, float epsilon, float scale, float* out) {
  const float root = std::sqrt(dot(x, x, n) + epsilon);
  for (std::size_t i = 0; i < n; ++i) out[i] = scale * (x[i] / root);
}

void add(const float* x, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] += x[i];
}

void add_scaled(float a, const float* x, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] += a * x[i];
}

void sigmoid(const float* x, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = sigmoid_of(x[i]);
}

void multiply_sigmoid(const float* gate, std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] *= sigmoid_of(gate[i]);
}

bool all_finite(const float* x, std::size_t n) {
  return std::all_of(x, x + n, [](float value) { return std::isfinite(value); });
}

void glu(const Glu& kind, const float* gate, const float* up, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = gate[i];
    if (kind.kind == Glu::Kind::situ) {
      const float u = kind.linear_beta != 0.0f ? capped(up[i], kind.linear_beta) : up[i];
      out[i] = capped(g, kind.beta) * sigmoid_of(g) * u;
    } else if (kind.kind == Glu::Kind::gelu) {
      out[i] = g * sigmoid_of(gelu_argument(g)) * up[i];
    } else if (kind.kind == Glu::Kind::limited) {
      const float low = g > kind.limit ? kind.limit : g;
      const float u = up[i] > kind.limit ? kind.limit : up[i] < -kind.limit ? -kind.limit : up[i];
      out[i] = low * sigmoid_of(kind.beta * low) * (u + 1);
    } else {
      out[i] = g * sigmoid_of(g) * up[i];
    }
  }
}

void short_convolution(float* history, const float* taps_by_channel, std::size_t channels,
                       std::size_t taps, const float* x, float* out) {
  for (std::size_t c = 0; c < channels; ++c) {
    const float* weights = taps_by_channel + c * taps;
    float sum = weights[taps - 1] * x[c];
    for (std::size_t j = 0; j + 1 < taps; ++j) sum += weights[j] * history[j * channels + c];
    for (std::size_t j = 0; j + 2 < taps; ++j) {
      history[j * channels + c] = history[(j + 1) * channels + c];
    }
    if (taps > 1) history[(taps - 2) * channels + c] = x[c];
    out[c] = sum * sigmoid_of(sum);
  }
}

void kda_decay(const float* raw, std::size_t n, float a_log, bool has_bound, float bound,
               float* out) {
  const float a = std::exp(a_log);
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = exp_of(has_bound ? bound * sigmoid_of(a * raw[i]) : -a * softplus_of(raw[i]));
  }
}

void kda_step(float* state, const float* q, const float* k, const float* v, const float* decay,
              float beta, std::size_t dim, float* scratch, float* out) {
  std::fill_n(scratch, dim, 0.0f);  // S^T k, then u
  std::fill_n(out, dim, 0.0f);
  for (std::size_t d = 0; d < dim; ++d) {
    for (std::size_t e = 0; e < dim; ++e) {
      state[d * dim + e] *= decay[d];
      scratch[e] += state[d * dim + e] * k[d];
    }
  }
  for (std::size_t e = 0; e < dim; ++e) scratch[e] = beta * (v[e] - scratch[e]);
  for (std::size_t d = 0; d < dim; ++d) {
    for (std::size_t e = 0; e < dim; ++e) {
      state[d * dim + e] += k[d] * scratch[e];
      out[e] += state[d * dim + e] * q[d];
    }
  }
}

void softmax(float* x, std::size_t n) {
  const float largest = *std::max_element(x, x + n);
  float sum = 0.0f;
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = exp_of(x[i] - largest);
    sum += x[i];
  }
  for (std::size_t i = 0; i < n; ++i) x[i] /= sum;
}

void attention_heads(const float* queries, std::size_t heads, const KeysAndValues& seen,
                     float scale, float* scores, float* out) {
  for (std::size_t h = 0; h < heads; ++h) {
    const float* const query = queries + h * seen.key_width;
    float* const mixed = out + h * seen.value_width;
    float* const own = scores + h * seen.count;
    for (std::size_t s = 0; s < seen.count; ++s) {
      own[s] = dot(query, seen.keys + s * seen.key_width, seen.key_width) * scale;
    }
    softmax(own, seen.count);
    std::fill_n(mixed, seen.value_width, 0.0f);
    for (std::size_t s = 0; s < seen.count; ++s) {
      add_scaled(own[s], seen.values + s * seen.value_stride, seen.value_width, mixed);
    }
  }
}

void latent_attention(const float* query, const float* cache, std::size_t count, std::size_t width,
                      std::size_t value_width, float scale, float* scores, float* out) {
  latent_attention_heads(query, 1, cache, count, width, value_width, scale, scores, out);
}

void latent_attention_heads(const float* queries, std::size_t heads, const float* cache,
                            std::size_t count, std::size_t width, std::size_t value_width,
                            float scale, float* scores, float* out) {
  attention_heads(queries, heads, {cache, cache, count, width, width, value_width}, scale, scores,
                  out);
}

void attention_residual(std::span<const float* const> sources, const float* direction,
                        std::size_t n, float epsilon, float* out) {
  // One pass of online softmax: no room for scores is needed.
  float largest = -std::numeric_limits<float>::infinity();
  float total = 0.0f;
  std::fill_n(out, n, 0.0f);
  for (const float* source : sources) {
    const float root = std::sqrt(dot(source, source, n) / static_cast<float>(n) + epsilon);
    const float score = dot(source, direction, n) / root;
    const float next = std::max(largest, score);
    const float fade = exp_of(largest - next);
    const float weight = exp_of(score - next);
    for (std::size_t i = 0; i < n; ++i) out[i] = out[i] * fade + weight * source[i];
    total = total * fade + weight;
    largest = next;
  }
  for (std::size_t i = 0; i < n; ++i) out[i] /= total;
}

void softmax_with_sink(float* x, std::size_t n, float sink) {
  const float largest = std::max(sink, *std::max_element(x, x + n));
  float total = std::exp(sink - largest);
  for (std::size_t i = 0; i < n; ++i) total += x[i] = std::exp(x[i] - largest);
  for (std::size_t i = 0; i < n; ++i) x[i] /= total;
}

void route(const Router& router, float* logits, const float* bias, std::int32_t* ids,
           float* weights) {
  const std::size_t size = router.experts / router.groups;
  if (router.scores == Router::Scores::sigmoid) sigmoid(logits, router.experts, logits);
  if (router.scores == Router::Scores::softmax) softmax(logits, router.experts);
  const auto choice = [&](std::size_t e) {
    return bias == nullptr ? logits[e] : logits[e] + bias[e];
  };
  const auto rating = [&](std::size_t group) {
    float best[2] = {-std::numeric_limits<float>::infinity(),
                     size > 1 ? -std::numeric_limits<float>::infinity() : 0.0f};
    for (std::size_t e = group * size; e < (group + 1) * size; ++e) {
      float candidate = choice(e);
      if (candidate > best[0]) std::swap(candidate, best[0]);
      if (size > 1 && candidate > best[1]) best[1] = candidate;
    }
    return best[0] + best[1];
  };
  const auto group_allowed = [&](std::size_t group) {
    std::size_t better = 0;
    for (std::size_t g = 0; g < router.groups; ++g) {
      better += rating(g) > rating(group) || (rating(g) == rating(group) && g < group) ? 1 : 0;
    }
    return better < router.top_groups;
  };
  float sum = 0.0f;
  for (std::size_t i = 0; i < router.top_k; ++i) {
    std::size_t best = router.experts;
    for (std::size_t e = 0; e < router.experts; ++e) {
      const bool taken = std::find(ids, ids + i, static_cast<std::int32_t>(e)) != ids + i;
      if (taken || (router.groups > router.top_groups && !group_allowed(e / size))) continue;
      if (best == router.experts || choice(e) > choice(best)) best = e;
    }
    ids[i] = static_cast<std::int32_t>(best);
    weights[i] = logits[best];
  }
  if (router.scores == Router::Scores::picked_softmax) softmax(weights, router.top_k);
  for (std::size_t i = 0; i < router.top_k; ++i) sum += weights[i];
  for (std::size_t i = 0; i < router.top_k; ++i) {
    if (router.renormalize) weights[i] /= sum + 1e-20f;
    weights[i] *= router.scale;
  }
}

std::size_t argmax(const float* x, std::size_t n) {
  return static_cast<std::size_t>(std::max_element(x, x + n) - x);
}

}  // namespace sluice::kernels::scalar
