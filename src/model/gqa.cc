#include "model/gqa.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops.h"

namespace sluice::model {

GqaWeights find_gqa(BlueprintBuilder& builder, const GqaNames& names, const GqaConfig& config,
                    std::size_t hidden) {
  GqaWeights w;
  // In the order in which run_gqa() uses them.
  w.query = builder.projection(names.query + ".weight", config.query_width(), hidden);
  w.key = builder.projection(names.key + ".weight", config.key_width(), hidden);
  w.value = builder.projection(names.value + ".weight", config.key_width(), hidden);
  w.out = builder.projection(names.out + ".weight", hidden, config.query_width());
  if (config.bias) {
    w.query_bias = builder.vector(names.query + ".bias", config.query_width());
    w.key_bias = builder.vector(names.key + ".bias", config.key_width());
    w.value_bias = builder.vector(names.value + ".bias", config.key_width());
  }
  if (config.sinks) w.sinks = builder.vector(names.sinks, config.heads);
  if (config.output_bias) w.out_bias = builder.vector(names.out + ".bias", hidden);
  if (config.head_norm) {
    w.query_norm = builder.vector(names.query_norm, config.dim);
    w.key_norm = builder.vector(names.key_norm, config.dim);
  }
  return w;
}

std::vector<LayerState> gqa_states(const GqaConfig& config, std::span<const std::size_t> windows) {
  std::vector<LayerState> states;
  for (const std::size_t window : windows) {
    states.push_back({.caches = 2 * config.kv_heads, .width = config.dim, .window = window});
  }
  return states;
}

GqaScratch lay_out_gqa(Arena& arena, const GqaConfig& config, std::size_t positions,
                       std::size_t context, int threads) {
  GqaScratch s{};
  s.query = arena.take(positions * config.query_width());
  s.key = arena.take(positions * config.key_width());
  s.value = arena.take(positions * config.key_width());
  s.out = arena.take(positions * config.query_width());
  s.prepared = arena.take(kernels::prepared_floats(config.query_width(), positions));
  s.worker_floats = (config.group() * context + 15) / 16 * 16;  // scores
  s.worker = arena.take(static_cast<std::size_t>(threads) * s.worker_floats);
  return s;
}

namespace {

void add_bias(const std::optional<Vector>& bias, const VectorTable& vectors, std::size_t rows,
              float* y) {
  if (!bias) return;
  for (std::size_t row = 0; row < rows; ++row) {
    kernels::add(vectors[*bias], bias->count, y + row * bias->count);
  }
}

/// Norms, where the model does, and rotates all heads of a row.
void place_heads(const Rope& rope, const std::optional<Vector>& norm, const VectorTable& vectors,
                 float epsilon, const float* angles, std::size_t heads, std::size_t dim,
                 float* row) {
  for (std::size_t head = 0; head < heads; ++head, row += dim) {
    if (norm) kernels::rms_norm(row, vectors[*norm], dim, epsilon, row);
    rope.rotate(angles, row);
  }
}

/// Puts a row's keys and values where the caches have its position.
void append(const GqaConfig& config, const float* key, const float* value, std::size_t position,
            const LayerCaches& caches) {
  for (std::size_t head = 0; head < config.kv_heads; ++head) {
    caches.append(head, position, key + head * config.dim);
    caches.append(config.kv_heads + head, position, value + head * config.dim);
  }
}

/// One group of heads of one row.
void attend(const GqaConfig& config, std::size_t kv_head, const float* query,
            const LayerCaches& caches, std::size_t position, const float* sinks, float* scores,
            float* out) {
  const std::size_t first = kv_head * config.group() * config.dim;
  const float scale =
      config.scale > 0 ? config.scale : 1.0f / std::sqrt(static_cast<float>(config.dim));
  kernels::CachedRows seen = caches.seen_from(position, kv_head, config.kv_heads + kv_head);
  if (sinks != nullptr) seen.sinks = sinks + kv_head * config.group();
  kernels::attention_over_cache(query + first, config.group(), seen, scale, scores, out + first);
}

/// Rows of one sequence from their projections to what their heads mix.
void mix_rows(const GqaWeights& weights, const GqaConfig& config, const Rope& rope, float epsilon,
              const VectorTable& vectors, Executor& executor, const GqaScratch& scratch,
              const float* angles, const RowRange& range, const LayerCaches& caches) {
  executor.parallel(range.count, [&](std::size_t i, int) {
    const std::size_t row = range.first + i;
    const float* const turned = angles + row * config.dim;
    float* const key = scratch.key + row * config.key_width();
    place_heads(rope, weights.query_norm, vectors, epsilon, turned, config.heads, config.dim,
                scratch.query + row * config.query_width());
    place_heads(rope, weights.key_norm, vectors, epsilon, turned, config.kv_heads, config.dim, key);
    append(config, key, scratch.value + row * config.key_width(), range.past + i, caches);
  });
  const float* const sinks = weights.sinks ? vectors[*weights.sinks] : nullptr;
  executor.parallel(range.count * config.kv_heads, [&](std::size_t item, int worker) {
    const std::size_t i = item / config.kv_heads;
    const std::size_t at = (range.first + i) * config.query_width();
    attend(config, item % config.kv_heads, scratch.query + at, caches, range.past + i, sinks,
           scratch.worker + static_cast<std::size_t>(worker) * scratch.worker_floats,
           scratch.out + at);
  });
}

}  // namespace

Status run_gqa(const GqaWeights& weights, const GqaConfig& config, const Rope& rope, float epsilon,
               const VectorTable& vectors, Executor& executor, const GqaScratch& scratch,
               const GqaPass& pass, Input& x, float* y) {
  SLUICE_TRY(executor.multiply(weights.query, x, scratch.query));
  SLUICE_TRY(executor.multiply(weights.key, x, scratch.key));
  SLUICE_TRY(executor.multiply(weights.value, x, scratch.value));
  const std::size_t rows = x.positions();
  add_bias(weights.query_bias, vectors, rows, scratch.query);
  add_bias(weights.key_bias, vectors, rows, scratch.key);
  add_bias(weights.value_bias, vectors, rows, scratch.value);

  for (std::size_t segment = 0; segment < pass.segments.size(); ++segment) {
    const RowRange& range = pass.segments[segment];
    const LayerCaches caches = pass.caches(segment);
    for (std::size_t done = 0; done < range.count;) {
      const std::size_t count = caches.appended_at_once(range.count - done);
      mix_rows(weights, config, rope, epsilon, vectors, executor, scratch, pass.angles,
               {range.first + done, count, range.past + done}, caches);
      done += count;
    }
  }
  Input mixed(scratch.out, config.query_width(), rows, scratch.prepared);
  SLUICE_TRY(executor.multiply(weights.out, mixed, y));
  add_bias(weights.out_bias, vectors, rows, y);
  return {};
}

}  // namespace sluice::model
