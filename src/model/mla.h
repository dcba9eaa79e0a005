// Multi-head latent attention, projections absorbed (SPEC 6.5): without positions as Kimi has it,
// or with a rotated part of queries and keys (DeepSeek V2, arXiv 2405.04434).
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "model/arena.h"
#include "model/blueprint.h"
#include "model/executor.h"
#include "model/layer_caches.h"
#include "model/rope.h"
#include "model/rows.h"
#include "model/vectors.h"

namespace sluice::model {

/// Epsilon of the two norms inside MLA: the released code leaves it at its class default, whatever
/// rms_norm_eps says (SPEC 6.5, trap 5).
inline constexpr float kMlaNormEpsilon = 1e-6f;

struct MlaConfig {
  std::size_t heads = 0;
  std::size_t query_rank = 0;  ///< 0: queries are projected in one step
  std::size_t latent = 0;      ///< kv_lora_rank
  std::size_t nope = 0;
  std::size_t rope = 0;  ///< numbers that are rotated; where no rope is given they are as they are
  std::size_t value = 0;
  bool output_gate = false;
  double sharpening = 1;       ///< of the scores, on top of 1 / sqrt(nope + rope)
  bool unpacks_heads = false;  ///< kv_b may be in a format that is not plain
  bool split = false;          ///< k_b and v_b instead of kv_b, k_b transposed (GGUF)
  std::size_t query_width() const { return heads * (nope + rope); }
  std::size_t cache_width() const { return latent + rope; }
  std::size_t output_width() const { return heads * value; }
  std::size_t absorbed_width() const { return split ? heads * latent : 0; }
};

/// What a container calls the tensors of a layer.
struct MlaNames {
  std::string kv_a, q_a, q_b, q, kv_b, k_b, v_b, gate, out;
  std::string q_a_norm, kv_a_norm;
};

/// Hugging Face's names behind a prefix.
MlaNames mla_names(const std::string& prefix);

/// The weights of one MLA layer.
struct MlaWeights {
  Matrix kv_a;       ///< [latent + rope, hidden]
  Matrix q_a, q_b;   ///< [query_rank, hidden], [query_width, query_rank]; with a query rank
  Matrix q;          ///< [query_width, hidden]; without
  Matrix kv_b;       ///< [heads * (nope + value), latent], in tiles of whole heads
  Matrix k_b, v_b;   ///< [heads * latent, nope], [heads * value, latent]; where they are split
  Matrix gate;       ///< [output_width, hidden]; with an output gate
  Matrix out;        ///< [hidden, output_width]
  Vector q_a_norm;   ///< [query_rank]
  Vector kv_a_norm;  ///< [latent]
};

MlaWeights find_mla(BlueprintBuilder& builder, const MlaNames& names, const MlaConfig& config,
                    std::size_t hidden);

/// Activations of a pass inside one MLA layer.
struct MlaScratch {
  float* low;       ///< [positions, query_rank]
  float* query;     ///< [positions, query_width]
  float* absorbed;  ///< [positions, heads * latent]: queries with k_b absorbed; where it is split
  float* latent;    ///< [positions, latent + rope]: what is appended to the cache
  float* out;       ///< [positions, output_width]
  float* gate;      ///< [positions, output_width]
  float* prepared;  ///< for inputs of width query_rank or output_width
  float* worker;    ///< [threads, worker_floats]
  std::size_t worker_floats;
  std::size_t context;  ///< that a worker's room is for
};
/// What all layers of a pass share. Without a rope nothing is rotated.
struct MlaPass {
  std::span<const RowRange> segments;
  FunctionRef<LayerCaches(std::size_t segment)> caches;
  const Rope* rope = nullptr;
  const float* angles = nullptr;  ///< [positions, rope]: Rope::angles() of every row
};

MlaScratch lay_out_mla(Arena& arena, const MlaConfig& config, std::size_t positions,
                       std::size_t context, int threads);

/// The attention output for normed rows x [positions, hidden] into y [positions, hidden].
/// caches(segment) is the layer's cache of a segment's sequence, of rows [latent + rope]: the
/// pass's rows are appended at the segment's `past`.
Status run_mla(const MlaWeights& weights, const MlaConfig& config, const VectorTable& vectors,
               Executor& executor, const MlaScratch& scratch, const MlaPass& pass, Input& x,
               float* y);

}  // namespace sluice::model
