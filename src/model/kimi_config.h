// The hyperparameters of Kimi K3 and Kimi-Linear (SPEC 1 and 14).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/ops.h"

namespace sluice::model {

struct KdaConfig {
  std::size_t heads = 0;
  std::size_t dim = 0;   ///< per head, of keys and of values
  std::size_t taps = 0;  ///< of the short convolution
  bool has_lower_bound = false;
  float lower_bound = 0;  ///< of the decay gate
  bool full_rank_gate = false;
  std::size_t width() const { return heads * dim; }
};

struct MlaConfig {
  std::size_t heads = 0;
  std::size_t query_rank = 0;  ///< 0: queries are projected in one step
  std::size_t latent = 0;      ///< kv_lora_rank
  std::size_t nope = 0;
  std::size_t rope = 0;  ///< named so, never rotated
  std::size_t value = 0;
  bool output_gate = false;
  std::size_t query_width() const { return heads * (nope + rope); }
  std::size_t cache_width() const { return latent + rope; }
  std::size_t output_width() const { return heads * value; }
};

struct MoeConfig {
  kernels::Router router;
  std::size_t width = 0;   ///< of one routed expert
  std::size_t latent = 0;  ///< 0: the experts work at full width
  bool latent_norm = false;
  std::size_t shared_width = 0;  ///< of all shared experts together; 0: none
  std::size_t first_layer = 0;   ///< layers below are dense
  std::size_t frequency = 1;
};

struct KimiConfig {
  std::string model_type;     ///< "kimi_k3" or "kimi_linear"
  std::string tensor_prefix;  ///< before "model.layers..."
  std::size_t hidden = 0;
  std::size_t layers = 0;
  std::size_t vocabulary = 0;
  float epsilon = 0;
  std::size_t max_positions = 0;
  std::vector<bool> is_kda;  ///< by layer, from 0
  KdaConfig kda;
  MlaConfig mla;
  MoeConfig moe;
  std::size_t dense_width = 0;
  kernels::Glu glu;
  bool packed_experts = false;     ///< MXFP4 is announced; what is there counts (SPEC trap 16)
  std::size_t residual_block = 0;  ///< AttnRes block length; 0: plain residuals
  std::vector<std::int32_t> end_ids;

  /// Banks of AttnRes that a pass fills: one per started block of layers.
  std::size_t residual_banks() const {
    return residual_block == 0 ? 0 : (layers + residual_block - 1) / residual_block;
  }
  bool is_moe(std::size_t layer) const {
    return layer >= moe.first_layer && layer % moe.frequency == 0;
  }
};

/// More banks than any model has; K3 has 8.
inline constexpr std::size_t kMostResidualBanks = 255;

/// Epsilon of the two norms inside MLA: the released code leaves it at its class default, whatever
/// rms_norm_eps says (SPEC 6.5, trap 5).
inline constexpr float kMlaNormEpsilon = 1e-6f;
/// Inside the root of the L2 norm of KDA's queries and keys (SPEC 6.3).
inline constexpr float kL2Epsilon = 1e-6f;

/// Reads config.json's text. Every fault is listed: missing fields, values that are not supported,
/// fields that are not understood. ErrorKind::model_files.
Result<KimiConfig> parse_kimi_config(const std::string& text);

}  // namespace sluice::model
