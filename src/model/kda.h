// Kimi Delta Attention: short convolution, decay gates and the gated delta rule (SPEC 6.3, 6.4).
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "model/arena.h"
#include "model/blueprint.h"
#include "model/executor.h"
#include "model/kimi_config.h"
#include "model/network.h"
#include "model/rows.h"
#include "model/vectors.h"

namespace sluice::model {

/// The weights of one KDA layer. P = heads * dim.
struct KdaWeights {
  Matrix q, k, v;                 ///< [P, hidden]
  Matrix f_a, f_b;                ///< [dim, hidden], [P, dim]: the decay gate
  Matrix beta;                    ///< [heads, hidden]
  Matrix gate;                    ///< [P, hidden], with a full-rank output gate
  Matrix g_a, g_b;                ///< [dim, hidden], [P, dim]: the output gate otherwise
  Matrix out;                     ///< [hidden, P]
  Vector conv_q, conv_k, conv_v;  ///< [P, taps]
  Vector a_log;                   ///< [heads]
  Vector dt_bias;                 ///< [P]
  Vector out_norm;                ///< [dim]
};

KdaWeights find_kda(BlueprintBuilder& builder, const std::string& prefix, const KdaConfig& config,
                    std::size_t hidden);

/// Floats of one sequence's state in one KDA layer: per head S [dim, dim] and the last taps-1
/// projected q, k and v [3, taps-1, dim].
std::size_t kda_state_floats(const KdaConfig& config);

/// Activations of a pass inside one KDA layer.
struct KdaScratch {
  float *q, *k, *v, *decay, *out;  ///< [positions, P]
  float* low;                      ///< [positions, dim]
  float* beta;                     ///< [positions, heads]
  float* prepared;                 ///< for inputs of width dim or P
  float* step;                     ///< [threads, dim]
  float* trial;                    ///< with drafts: the state of a head, for each thread
};
KdaScratch lay_out_kda(Arena& arena, const KdaConfig& config, const PassLimits& limits,
                       int threads);

/// What the rows of a pass with drafts bring to the recurrence, kept until it is known which of
/// them are right: by layer, there where `is_kda`. Only q, k, v, decay and beta [1 + drafts, ...]
/// and what a head's step needs are there; nothing at all without drafts.
std::vector<KdaScratch> lay_out_kda_notes(Arena& arena, const KdaConfig& config,
                                          const std::vector<bool>& is_kda, std::size_t drafts,
                                          int threads);

/// The attention output for normed rows x [positions, hidden] into y [positions, hidden].
/// state(segment) is the layer's state of a segment's sequence, updated in place; but with `notes`
/// it stays as it is, and the rows, of one segment, are noted there.
Status run_kda(const KdaWeights& weights, const KdaConfig& config, float epsilon,
               const VectorTable& vectors, Executor& executor, const KdaScratch& scratch,
               std::span<const RowRange> segments, const KdaScratch* notes,
               FunctionRef<float*(std::size_t segment)> state, Input& x, float* y);

/// Brings the layer's state from before row `first` to behind the `count` rows from there on, and
/// uses their notes up.
void keep_kda_rows(const KdaWeights& weights, const KdaConfig& config, float epsilon,
                   const VectorTable& vectors, Executor& executor, const KdaScratch& notes,
                   std::size_t first, std::size_t count, float* state);

}  // namespace sluice::model
