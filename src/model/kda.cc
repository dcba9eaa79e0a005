#include "model/kda.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/ops.h"

namespace sluice::model {

KdaWeights find_kda(BlueprintBuilder& builder, const std::string& prefix, const KdaConfig& config,
                    std::size_t hidden) {
  const std::size_t width = config.width();
  KdaWeights w;
  // In the order in which run_kda() uses them.
  w.q = builder.projection(prefix + "q_proj.weight", width, hidden);
  w.k = builder.projection(prefix + "k_proj.weight", width, hidden);
  w.v = builder.projection(prefix + "v_proj.weight", width, hidden);
  w.f_a = builder.projection(prefix + "f_a_proj.weight", config.dim, hidden);
  w.f_b = builder.projection(prefix + "f_b_proj.weight", width, config.dim);
  w.beta = builder.projection(prefix + "b_proj.weight", config.heads, hidden);
  if (config.full_rank_gate) {
    w.gate = builder.projection(prefix + "g_proj.weight", width, hidden);
  } else {
    w.g_a = builder.projection(prefix + "g_a_proj.weight", config.dim, hidden);
    w.g_b = builder.projection(prefix + "g_b_proj.weight", width, config.dim);
  }
  w.out = builder.projection(prefix + "o_proj.weight", hidden, width);
  w.conv_q = builder.vector(prefix + "q_conv1d.weight", width * config.taps);
  w.conv_k = builder.vector(prefix + "k_conv1d.weight", width * config.taps);
  w.conv_v = builder.vector(prefix + "v_conv1d.weight", width * config.taps);
  // Stored padded: K3 has 128 numbers for 96 heads. One per head, whatever follows (SPEC trap 1).
  w.a_log = builder.vector(prefix + "A_log", config.heads, /*padded=*/true);
  w.dt_bias = builder.vector(prefix + "dt_bias", width);
  w.out_norm = builder.vector(prefix + "o_norm.weight", config.dim);
  return w;
}

namespace {

std::size_t history_floats(const KdaConfig& config) { return (config.taps - 1) * config.dim; }

std::size_t head_state_floats(const KdaConfig& config) {
  return config.dim * config.dim + 3 * history_floats(config);
}

/// Everything that one head does between the projections and the output projection, for all rows
/// of a segment in order.
class Head {
 public:
  Head(const KdaWeights& weights, const KdaConfig& config, float epsilon,
       const VectorTable& vectors, const KdaScratch& scratch, std::size_t head, int worker)
      : config_(config),
        scratch_(scratch),
        head_(head),
        column_(head * config.dim),
        epsilon_(epsilon),
        step_(scratch.step + static_cast<std::size_t>(worker) * config.dim),
        a_log_(vectors[weights.a_log][head]),
        dt_bias_(vectors[weights.dt_bias] + column_),
        out_norm_(vectors[weights.out_norm]) {
    const std::size_t taps = column_ * config.taps;
    conv_[0] = vectors[weights.conv_q] + taps;
    conv_[1] = vectors[weights.conv_k] + taps;
    conv_[2] = vectors[weights.conv_v] + taps;
  }

  void run(const RowRange& rows, float* state) const {
    for (std::size_t row = rows.first; row < rows.first + rows.count; ++row) step(row, state);
  }

 private:
  void step(std::size_t row, float* state) const {
    const std::size_t dim = config_.dim;
    const std::size_t at = row * config_.width() + column_;
    float* const q = scratch_.q + at;
    float* const k = scratch_.k + at;
    float* const v = scratch_.v + at;
    float* history = state + dim * dim;
    for (std::size_t i = 0; i < 3; ++i) {
      float* const z = i == 0 ? q : i == 1 ? k : v;
      kernels::short_convolution(history, conv_[i], dim, config_.taps, z, z);
      history += history_floats(config_);
    }
    const float query_scale = 1.0f / std::sqrt(static_cast<float>(dim));
    kernels::l2_norm(q, dim, kL2Epsilon, query_scale, q);
    kernels::l2_norm(k, dim, kL2Epsilon, 1.0f, k);
    float* const decay = scratch_.decay + at;
    kernels::add(dt_bias_, dim, decay);
    kernels::kda_decay(decay, dim, a_log_, config_.has_lower_bound, config_.lower_bound, decay);
    float beta = 1.0f;
    kernels::multiply_sigmoid(scratch_.beta + row * config_.heads + head_, 1, &beta);
    float* const out = scratch_.out + at;
    kernels::kda_step(state, q, k, v, decay, beta, dim, step_, out);
    kernels::rms_norm(out, out_norm_, dim, epsilon_, out);
  }

  const KdaConfig& config_;
  const KdaScratch& scratch_;
  std::size_t head_;
  std::size_t column_;  // of the head in rows of width P
  float epsilon_;
  float* step_;
  float a_log_;
  const float* dt_bias_;
  const float* out_norm_;
  const float* conv_[3];
};

}  // namespace

std::size_t kda_state_floats(const KdaConfig& config) {
  return config.heads * head_state_floats(config);
}

KdaScratch lay_out_kda(Arena& arena, const KdaConfig& config, const PassLimits& limits,
                       int threads) {
  const std::size_t positions = limits.positions;
  const auto workers = static_cast<std::size_t>(threads);
  KdaScratch s{};
  for (float** rows : {&s.q, &s.k, &s.v, &s.decay, &s.out}) {
    *rows = arena.take(positions * config.width());
  }
  s.low = arena.take(positions * config.dim);
  s.beta = arena.take(positions * config.heads);
  s.prepared = arena.take(kernels::prepared_floats(config.width(), positions));
  s.step = arena.take(workers * config.dim);
  if (limits.drafts > 0) s.trial = arena.take(workers * head_state_floats(config));
  return s;
}

std::vector<KdaScratch> lay_out_kda_notes(Arena& arena, const KdaConfig& config,
                                          const std::vector<bool>& is_kda, std::size_t drafts,
                                          int threads) {
  if (drafts == 0) return {};
  const std::size_t rows = 1 + drafts;
  // What is kept was attended to already: one room for the outputs that keeping makes once more.
  float* const out = arena.take(rows * config.width());
  float* const step = arena.take(static_cast<std::size_t>(threads) * config.dim);
  std::vector<KdaScratch> all(is_kda.size());
  for (std::size_t layer = 0; layer < all.size(); ++layer) {
    if (!is_kda[layer]) continue;
    KdaScratch& s = all[layer];
    for (float** part : {&s.q, &s.k, &s.v, &s.decay}) *part = arena.take(rows * config.width());
    s.beta = arena.take(rows * config.heads);
    s.out = out;
    s.step = step;
  }
  return all;
}

namespace {

/// Notes the inputs of the recurrence, before it changes them in place.
void note_rows(const KdaConfig& config, const KdaScratch& scratch, std::size_t positions,
               const KdaScratch& notes) {
  const std::size_t floats = positions * config.width();
  const std::pair<const float*, float*> parts[] = {{scratch.q, notes.q},
                                                   {scratch.k, notes.k},
                                                   {scratch.v, notes.v},
                                                   {scratch.decay, notes.decay}};
  for (const auto& [from, to] : parts) std::copy_n(from, floats, to);
  std::copy_n(scratch.beta, positions * config.heads, notes.beta);
}

}  // namespace

Status run_kda(const KdaWeights& weights, const KdaConfig& config, float epsilon,
               const VectorTable& vectors, Executor& executor, const KdaScratch& scratch,
               std::span<const RowRange> segments, const KdaScratch* notes,
               FunctionRef<float*(std::size_t segment)> state, Input& x, float* y) {
  const std::size_t positions = x.positions();
  SLUICE_TRY(executor.multiply(weights.q, x, scratch.q));
  SLUICE_TRY(executor.multiply(weights.k, x, scratch.k));
  SLUICE_TRY(executor.multiply(weights.v, x, scratch.v));
  SLUICE_TRY(executor.multiply(weights.f_a, x, scratch.low));
  Input low(scratch.low, config.dim, positions, scratch.prepared);
  SLUICE_TRY(executor.multiply(weights.f_b, low, scratch.decay));
  SLUICE_TRY(executor.multiply(weights.beta, x, scratch.beta));

  if (notes != nullptr) note_rows(config, scratch, positions, *notes);
  const std::size_t floats = head_state_floats(config);
  executor.parallel(config.heads, [&](std::size_t index, int worker) {
    const Head head(weights, config, epsilon, vectors, scratch, index, worker);
    for (std::size_t segment = 0; segment < segments.size(); ++segment) {
      float* mine = state(segment) + index * floats;
      if (notes != nullptr) {
        float* const trial = scratch.trial + static_cast<std::size_t>(worker) * floats;
        std::copy_n(mine, floats, trial);
        mine = trial;
      }
      head.run(segments[segment], mine);
    }
  });

  float* const gate = scratch.q;  // the queries are used up
  if (config.full_rank_gate) {
    SLUICE_TRY(executor.multiply(weights.gate, x, gate));
  } else {
    SLUICE_TRY(executor.multiply(weights.g_a, x, scratch.low));
    Input low_gate(scratch.low, config.dim, positions, scratch.prepared);
    SLUICE_TRY(executor.multiply(weights.g_b, low_gate, gate));
  }
  executor.parallel_ranges(positions * config.width(), 4096,
                           [&](std::size_t first, std::size_t count) {
                             kernels::multiply_sigmoid(gate + first, count, scratch.out + first);
                           });
  Input gated(scratch.out, config.width(), positions, scratch.prepared);
  return executor.multiply(weights.out, gated, y);
}

void keep_kda_rows(const KdaWeights& weights, const KdaConfig& config, float epsilon,
                   const VectorTable& vectors, Executor& executor, const KdaScratch& notes,
                   std::size_t first, std::size_t count, float* state) {
  executor.parallel(config.heads, [&](std::size_t index, int worker) {
    const Head head(weights, config, epsilon, vectors, notes, index, worker);
    head.run({.first = first, .count = count}, state + index * head_state_floats(config));
  });
}

}  // namespace sluice::model
