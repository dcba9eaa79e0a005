#include "model/mla.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "kernels/ops.h"

namespace sluice::model {
namespace {

bool is_plain(kernels::WeightFormat format) { return format < kernels::WeightFormat::mxfp4; }

}  // namespace

MlaNames mla_names(const std::string& prefix) {
  MlaNames names;
  names.kv_a = prefix + "kv_a_proj_with_mqa.weight";
  names.q_a = prefix + "q_a_proj.weight";
  names.q_b = prefix + "q_b_proj.weight";
  names.q = prefix + "q_proj.weight";
  names.kv_b = prefix + "kv_b_proj.weight";
  names.gate = prefix + "g_proj.weight";
  names.out = prefix + "o_proj.weight";
  names.q_a_norm = prefix + "q_a_layernorm.weight";
  names.kv_a_norm = prefix + "kv_a_layernorm.weight";
  return names;
}

namespace {

/// The projections of the latent to keys and values, which queries and outputs absorb.
void find_heads(BlueprintBuilder& builder, const MlaNames& names, const MlaConfig& config,
                MlaWeights& w) {
  if (config.split) {
    w.k_b = builder.stacked(names.k_b, config.heads, config.latent, config.nope);
    w.v_b = builder.stacked(names.v_b, config.heads, config.value, config.latent);
    return;
  }
  // Used on both sides of the softmax: it is never multiplied as a whole.
  w.kv_b = builder.matrix(names.kv_b, config.heads * (config.nope + config.value), config.latent,
                          config.nope + config.value);
  if (is_plain(w.kv_b.format) || config.unpacks_heads) return;
  builder.fault(
      fmt::format("tensor {}: is quantized, of which config.json says nothing", names.kv_b));
}

}  // namespace

MlaWeights find_mla(BlueprintBuilder& builder, const MlaNames& names, const MlaConfig& config,
                    std::size_t hidden) {
  MlaWeights w;
  // In the order in which run_mla() uses them.
  w.kv_a = builder.projection(names.kv_a, config.cache_width(), hidden);
  if (config.query_rank > 0) {
    w.q_a = builder.projection(names.q_a, config.query_rank, hidden);
    w.q_b = builder.projection(names.q_b, config.query_width(), config.query_rank);
    w.q_a_norm = builder.vector(names.q_a_norm, config.query_rank);
  } else {
    w.q = builder.projection(names.q, config.query_width(), hidden);
  }
  find_heads(builder, names, config, w);
  if (config.output_gate) w.gate = builder.projection(names.gate, config.output_width(), hidden);
  w.out = builder.projection(names.out, hidden, config.output_width());
  w.kv_a_norm = builder.vector(names.kv_a_norm, config.latent);
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

/// The projections of one head.
struct Head {
  std::size_t index;
  const kernels::Rows* key;  ///< [nope, latent]; none: scratch.absorbed has what it does
  const kernels::Rows& value;
};

/// A query with the key projection absorbed, on the latent part.
void absorb(const MlaConfig& config, const Head& head, std::size_t row, const MlaScratch& scratch,
            float* query) {
  if (head.key == nullptr) {
    std::copy_n(scratch.absorbed + row * config.absorbed_width() + head.index * config.latent,
                config.latent, query);
    return;
  }
  const float* const q =
      scratch.query + row * config.query_width() + head.index * (config.nope + config.rope);
  std::fill_n(query, config.latent, 0.0f);
  kernels::add_transposed(*head.key, q, query);
}

/// One head for all rows of a segment. False where a number goes bad: a softmax may swallow it.
bool attend(const MlaConfig& config, const Head& head, const RowRange& rows,
            const LayerCaches& caches, const MlaPass& pass, const MlaScratch& scratch,
            const HeadRoom& room) {
  const float scale = static_cast<float>(config.sharpening) /
                      std::sqrt(static_cast<float>(config.nope + config.rope));
  bool finite = true;
  for (std::size_t i = 0; i < rows.count; ++i) {
    const std::size_t row = rows.first + i;
    absorb(config, head, row, scratch, room.query);
    finite = kernels::all_finite(room.query, config.latent) && finite;
    const float* const q =
        scratch.query + row * config.query_width() + head.index * (config.nope + config.rope);
    std::copy_n(q + config.nope, config.rope, room.query + config.latent);
    rotate(config, pass, row, room.query + config.latent);
    kernels::CachedRows seen = caches.seen_from(rows.past + i, 0, 0);
    seen.value_width = config.latent;
    kernels::attention_over_cache(room.query, 1, seen, scale, room.scores, room.mixed);
    kernels::prepare(head.value.format, room.mixed, config.latent, config.latent, 1, room.prepared);
    float* const out = scratch.out + row * config.output_width() + head.index * config.value;
    kernels::matmul(head.value, room.prepared, 1, out, config.value);
    finite = kernels::all_finite(out, config.value) && finite;
  }
  return finite;
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

/// What the heads of a pass work on.
struct HeadsPass {
  const MlaWeights& weights;
  const MlaConfig& config;
  Executor& executor;
  const MlaScratch& scratch;
  const MlaPass& pass;
  std::atomic<bool> finite{true};

  float* worker_room(int worker) const {
    return scratch.worker + static_cast<std::size_t>(worker) * scratch.worker_floats;
  }
  void attend_all(const Head& head, const HeadRoom& room) {
    for (std::size_t segment = 0; segment < pass.segments.size(); ++segment) {
      if (!attend(config, head, pass.segments[segment], pass.caches(segment), pass, scratch, room))
        finite = false;
    }
  }
};

/// A tile holds whole heads: each is projected, attends and is projected back while it is here, so
/// kv_b passes through memory once although it is used on both sides of the softmax.
Status run_heads(HeadsPass& heads) {
  const MlaConfig& config = heads.config;
  const Matrix& kv_b = heads.weights.kv_b;
  const std::size_t head_rows = config.nope + config.value;
  return heads.executor.for_each_tile(kv_b, [&](const weights::Tile& tile) {
    heads.executor.parallel(tile.rows / head_rows, [&](std::size_t index, int worker) {
      const HeadRoom room(config, heads.scratch.context, heads.worker_room(worker));
      const kernels::Rows rows = unpacked(
          kernels::slice(heads.executor.rows_of(kv_b, tile), index * head_rows, head_rows), room);
      const kernels::Rows key = kernels::slice(rows, 0, config.nope);
      const kernels::Rows value = kernels::slice(rows, config.nope, config.value);
      heads.attend_all({tile.first_row / head_rows + index, &key, value}, room);
    });
  });
}

/// Where the keys' heads come before all of the values': every query absorbs its key projection,
/// then every head attends.
Status run_split_heads(HeadsPass& heads, std::size_t positions) {
  const MlaConfig& config = heads.config;
  const Matrix& k_b = heads.weights.k_b;
  const Matrix& v_b = heads.weights.v_b;
  SLUICE_TRY(heads.executor.for_each_tile(k_b, [&](const weights::Tile& tile) {
    heads.executor.parallel(tile.rows / config.latent, [&](std::size_t index, int worker) {
      const std::size_t head = tile.first_row / config.latent + index;
      float* const prepared = heads.worker_room(worker);
      kernels::prepare(k_b.format, heads.scratch.query + head * (config.nope + config.rope),
                       config.query_width(), config.nope, positions, prepared);
      float* const absorbed = heads.scratch.absorbed + head * config.latent;
      kernels::matmul(
          kernels::slice(heads.executor.rows_of(k_b, tile), index * config.latent, config.latent),
          prepared, positions, absorbed, config.absorbed_width());
      for (std::size_t i = 0; i < positions; ++i) {
        const float* const query = absorbed + i * config.absorbed_width();
        if (!kernels::all_finite(query, config.latent)) heads.finite = false;
      }
    });
  }));
  if (!heads.finite) return heads.executor.bad_product(k_b, "tensor");
  return heads.executor.for_each_tile(v_b, [&](const weights::Tile& tile) {
    heads.executor.parallel(tile.rows / config.value, [&](std::size_t index, int worker) {
      const HeadRoom room(config, heads.scratch.context, heads.worker_room(worker));
      const kernels::Rows value =
          kernels::slice(heads.executor.rows_of(v_b, tile), index * config.value, config.value);
      heads.attend_all({tile.first_row / config.value + index, nullptr, value}, room);
    });
  });
}

}  // namespace

MlaScratch lay_out_mla(Arena& arena, const MlaConfig& config, std::size_t positions,
                       std::size_t context, int threads) {
  MlaScratch s{};
  s.low = arena.take(positions * config.query_rank);
  s.query = arena.take(positions * config.query_width());
  s.absorbed = arena.take(positions * config.absorbed_width());
  s.latent = arena.take(positions * config.cache_width());
  s.out = arena.take(positions * config.output_width());
  s.gate = arena.take(positions * (config.output_gate ? config.output_width() : 0));
  s.prepared = arena.take(
      kernels::prepared_floats(std::max(config.query_rank, config.output_width()), positions));
  s.context = context;
  s.worker_floats = HeadRoom::floats(config, context);
  if (config.split) {
    const std::size_t absorbing = aligned(kernels::prepared_floats(config.nope, positions));
    s.worker_floats = std::max(s.worker_floats, absorbing);
  }
  s.worker = arena.take(static_cast<std::size_t>(threads) * s.worker_floats);
  return s;
}

Status run_mla(const MlaWeights& weights, const MlaConfig& config, const VectorTable& vectors,
               Executor& executor, const MlaScratch& scratch, const MlaPass& pass, Input& x,
               float* y) {
  SLUICE_TRY(executor.multiply(weights.kv_a, x, scratch.latent));
  append_to_cache(config, vectors[weights.kv_a_norm], scratch, pass);
  SLUICE_TRY(project_query(weights, config, vectors, executor, scratch, x));

  HeadsPass heads = {weights, config, executor, scratch, pass};
  SLUICE_TRY(config.split ? run_split_heads(heads, x.positions()) : run_heads(heads));
  if (!heads.finite)
    return executor.bad_product(config.split ? weights.v_b : weights.kv_b, "tensor");

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
