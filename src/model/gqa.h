// Grouped-query attention (arXiv 2305.13245) with rotary positions.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/function_ref.h"
#include "base/result.h"
#include "model/arena.h"
#include "model/blueprint.h"
#include "model/decoder_state.h"
#include "model/executor.h"
#include "model/layer_caches.h"
#include "model/rope.h"
#include "model/rows.h"
#include "model/vectors.h"

namespace sluice::model {

struct GqaConfig {
  std::size_t heads = 0;
  std::size_t kv_heads = 0;  ///< divides heads
  std::size_t dim = 0;       ///< of a head
  bool bias = false;         ///< of query, key and value
  bool output_bias = false;
  bool sinks = false;      ///< heads have a score that takes a share and gives nothing
  bool head_norm = false;  ///< queries and keys are normed head by head before they are rotated
  float scale = 0;         ///< of scores; 0: 1 / sqrt(dim)
  std::size_t query_width() const { return heads * dim; }
  std::size_t key_width() const { return kv_heads * dim; }
  std::size_t group() const { return heads / kv_heads; }
};

/// What a container calls the tensors of a layer's attention.
struct GqaNames {
  std::string query, key, value, out;  ///< without ".weight", ".bias"
  std::string query_norm, key_norm;    ///< with
  std::string sinks = {};              ///< with
};

struct GqaWeights {
  Matrix query;       ///< [heads * dim, hidden]
  Matrix key, value;  ///< [kv_heads * dim, hidden]
  Matrix out;         ///< [hidden, heads * dim]
  std::optional<Vector> query_bias, key_bias, value_bias, out_bias;
  std::optional<Vector> query_norm, key_norm;  ///< [dim]
  std::optional<Vector> sinks;                 ///< [heads]
};

GqaWeights find_gqa(BlueprintBuilder& builder, const GqaNames& names, const GqaConfig& config,
                    std::size_t hidden);

/// Activations of a pass inside one layer.
struct GqaScratch {
  float* query;     ///< [positions, heads * dim]
  float* key;       ///< [positions, kv_heads * dim]
  float* value;     ///< [positions, kv_heads * dim]
  float* out;       ///< [positions, heads * dim]
  float* prepared;  ///< for inputs of width heads * dim
  float* worker;    ///< [threads, worker_floats]
  std::size_t worker_floats;
};
/// What layers keep of a sequence: keys, then values, each head by itself. `windows`: by layer.
std::vector<LayerState> gqa_states(const GqaConfig& config, std::span<const std::size_t> windows);

GqaScratch lay_out_gqa(Arena& arena, const GqaConfig& config, std::size_t positions,
                       std::size_t context, int threads);

/// What all layers of a pass share.
struct GqaPass {
  std::span<const RowRange> segments;
  FunctionRef<LayerCaches(std::size_t segment)> caches;  ///< the layer's, of a segment's sequence
  const float* angles;  ///< [positions, dim]: Rope::angles() of every row
};

/// The attention output for normed rows x [positions, hidden] into y [positions, hidden]. The rows
/// are appended to the caches.
Status run_gqa(const GqaWeights& weights, const GqaConfig& config, const Rope& rope, float epsilon,
               const VectorTable& vectors, Executor& executor, const GqaScratch& scratch,
               const GqaPass& pass, Input& x, float* y);

}  // namespace sluice::model
