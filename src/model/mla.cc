#include "model/mla.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/ops.h"

namespace sluice::model {
namespace {

bool is_plain(kernels::WeightFormat format) { return format < kernels::WeightFormat::mxfp4; }

}  // namespace

MlaWeights find_mla(BlueprintBuilder& builder, const std::string& prefix, const MlaConfig& config,
                    std::size_t hidden) {
  MlaWeights w;
  // In the order in which run_mla() uses them.
  w.kv_a = builder.matrix(prefix + "kv_a_proj_with_mqa.weight", config.cache_width(), hidden);
  if (config.query_rank > 0) {
    w.q_a = builder.matrix(prefix + "q_a_proj.weight", config.query_rank, hidden);
    w.q_b = builder.matrix(prefix + "q_b_proj.weight", config.query_width(), config.query_rank);
    w.q_a_norm = builder.vector(prefix + "q_a_layernorm.weight", config.query_rank);
  } else {
    w.q = builder.matrix(prefix + "q_proj.weight", config.query_width(), hidden);
  }
  w.kv_b = builder.matrix(prefix + "kv_b_proj.weight", config.heads * (config.nope + config.value),
                          config.latent, config.nope + config.value);
  if (!is_plain(w.kv_b.format) && !config.unpacks_heads) {
    builder.fault(
        fmt::format("tensor {}kv_b_proj.weight: is quantized, of which config.json says "
                    "nothing",
                    prefix));
  }
  if (config.output_gate) {
    w.gate = builder.matrix(prefix + "g_proj.weight", config.output_width(), hidden);
  }
  w.out = builder.matrix(prefix + "o_proj.weight", hidden, config.output_width());
  w.kv_a_norm = builder.vector(prefix + "kv_a_layernorm.weight", config.latent);
  return w;
}

namespace {

std::size_t aligned(std::size_t floats) { return (floats + 15) / 16 * 16; }

/// What one thread works with while it does one head.
struct HeadRoom {
  HeadRoom(const MlaConfig& config, std::size_t context, float* room)
      : query(room),
        mixed(query + aligned(config.cache_width())),
        prepared(mixed + aligned(config.latent)),
        scores(prepared + aligned(kernels::prepared_floats(config.latent, 1))),
        rows(scores + aligned(context)) {}

  static std::size_t floats(const MlaConfig& config, std::size_t context) {
    return aligned(config.cache_width()) + aligned(config.latent) +
           aligned(kernels::prepared_floats(config.latent, 1)) + aligned(context) +
           (config.unpacks_heads ? aligned((config.nope + config.value) * config.latent) : 0);
  }

  float* query;     // [latent + rope]: the query with the key projection absorbed
  float* mixed;     // [latent]: the softmax mix of cached latents
  float* prepared;  // mixed, prepared for the value projection
  float* scores;    // [context]
  float* rows;      // [nope + value, latent]: the head's rows, where they are unpacked
};

/// The head's rows in a format that can be used both ways.
kernels::Rows unpacked(const kernels::Rows& packed, const HeadRoom& room) {
  if (is_plain(packed.format)) return packed;
  for (std::size_t row = 0; row < packed.rows; ++row) {
    kernels::decode_row(packed, row, room.rows + row * packed.columns);
  }
  return {kernels::WeightFormat::f32, reinterpret_cast<const std::byte*>(room.rows), nullptr,
          packed.rows, packed.columns};
}

/// The part of a row's query or key that has its position.
void rotate(const MlaConfig& config, const MlaPass& pass, std::size_t row, float* part) {
  if (pass.rope != nullptr) pass.rope->rotate(pass.angles + row * config.rope, part);
}

/// One head for all rows of a segment. `rows_of_head`: its nope key rows, then its value rows.
void attend(const MlaConfig& config, const kernels::Rows& rows_of_head, std::size_t head,
            const RowRange& rows, const LayerCaches& caches, const MlaPass& pass,
            const MlaScratch& scratch, const HeadRoom& room) {
  const kernels::Rows key = kernels::slice(rows_of_head, 0, config.nope);
  const kernels::Rows value = kernels::slice(rows_of_head, config.nope, config.value);
  const float scale = static_cast<float>(config.sharpening) /
                      std::sqrt(static_cast<float>(config.nope + config.rope));
  for (std::size_t i = 0; i < rows.count; ++i) {
    const float* const q = scratch.query + (rows.first + i) * config.query_width() +
                           head * (config.nope + config.rope);
    std::fill_n(room.query, config.latent, 0.0f);
    kernels::add_transposed(key, q, room.query);
    std::copy_n(q + config.nope, config.rope, room.query + config.latent);
    rotate(config, pass, rows.first + i, room.query + config.latent);
    kernels::CachedRows seen = caches.seen_from(rows.past + i, 0, 0);
    seen.value_width = config.latent;
    kernels::attention_over_cache(room.query, 1, seen, scale, room.scores, room.mixed);
    kernels::prepare(value.format, room.mixed, config.latent, config.latent, 1, room.prepared);
    kernels::matmul(value, room.prepared, 1,
                    scratch.out + (rows.first + i) * config.output_width() + head * config.value,
                    config.value);
  }
}

/// Norms the latent part, rotates the other, and appends the rows to the caches.
void append_to_cache(const MlaConfig& config, const float* norm, const MlaScratch& scratch,
                     const MlaPass& pass) {
  const std::size_t width = config.cache_width();
  for (std::size_t segment = 0; segment < pass.segments.size(); ++segment) {
    const RowRange& rows = pass.segments[segment];
    for (std::size_t i = 0; i < rows.count; ++i) {
      float* const row = scratch.latent + (rows.first + i) * width;
      kernels::rms_norm(row, norm, config.latent, kMlaNormEpsilon, row);
      rotate(config, pass, rows.first + i, row + config.latent);
      pass.caches(segment).append(0, rows.past + i, row);
    }
  }
}

Status project_query(const MlaWeights& weights, const MlaConfig& config, const VectorTable& vectors,
                     Executor& executor, const MlaScratch& scratch, Input& x) {
  if (config.query_rank == 0) return executor.multiply(weights.q, x, scratch.query);
  SLUICE_TRY(executor.multiply(weights.q_a, x, scratch.low));
  for (std::size_t row = 0; row < x.positions(); ++row) {
    float* const low = scratch.low + row * config.query_rank;
    kernels::rms_norm(low, vectors[weights.q_a_norm], config.query_rank, kMlaNormEpsilon, low);
  }
  Input low(scratch.low, config.query_rank, x.positions(), scratch.prepared);
  return executor.multiply(weights.q_b, low, scratch.query);
}

}  // namespace

MlaScratch lay_out_mla(Arena& arena, const MlaConfig& config, std::size_t positions,
                       std::size_t context, int threads) {
  MlaScratch s{};
  s.low = arena.take(positions * config.query_rank);
  s.query = arena.take(positions * config.query_width());
  s.latent = arena.take(positions * config.cache_width());
  s.out = arena.take(positions * config.output_width());
  s.gate = arena.take(positions * (config.output_gate ? config.output_width() : 0));
  s.prepared = arena.take(
      kernels::prepared_floats(std::max(config.query_rank, config.output_width()), positions));
  s.context = context;
  s.worker_floats = HeadRoom::floats(config, context);
  s.worker = arena.take(static_cast<std::size_t>(threads) * s.worker_floats);
  return s;
}

Status run_mla(const MlaWeights& weights, const MlaConfig& config, const VectorTable& vectors,
               Executor& executor, const MlaScratch& scratch, const MlaPass& pass, Input& x,
               float* y) {
  SLUICE_TRY(executor.multiply(weights.kv_a, x, scratch.latent));
  append_to_cache(config, vectors[weights.kv_a_norm], scratch, pass);
  SLUICE_TRY(project_query(weights, config, vectors, executor, scratch, x));

  // A tile holds whole heads: each is projected, attends and is projected back while it is here,
  // so kv_b passes through memory once although it is used on both sides of the softmax.
  const std::size_t head_rows = config.nope + config.value;
  SLUICE_TRY(executor.for_each_tile(weights.kv_b, [&](const weights::Tile& tile) {
    executor.parallel(tile.rows / head_rows, [&](std::size_t index, int worker) {
      const HeadRoom room(
          config, scratch.context,
          scratch.worker + static_cast<std::size_t>(worker) * scratch.worker_floats);
      const kernels::Rows rows_of_head = unpacked(
          kernels::slice(executor.rows_of(weights.kv_b, tile), index * head_rows, head_rows), room);
      for (std::size_t segment = 0; segment < pass.segments.size(); ++segment) {
        attend(config, rows_of_head, tile.first_row / head_rows + index, pass.segments[segment],
               pass.caches(segment), pass, scratch, room);
      }
    });
  }));

  const std::size_t floats = x.positions() * config.output_width();
  if (config.output_gate) {
    SLUICE_TRY(executor.multiply(weights.gate, x, scratch.gate));
    executor.parallel_ranges(floats, 4096, [&](std::size_t first, std::size_t count) {
      kernels::multiply_sigmoid(scratch.gate + first, count, scratch.out + first);
    });
  }
  Input gated(scratch.out, config.output_width(), x.positions(), scratch.prepared);
  return executor.multiply(weights.out, gated, y);
}

}  // namespace sluice::model
