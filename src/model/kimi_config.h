// The hyperparameters of Kimi K3 and Kimi-Linear (SPEC 1 and 14).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/ops.h"
#include "model/mla.h"
#include "model/moe.h"

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
  std::size_t first_moe_layer = 0;  ///< layers below are dense
  std::size_t moe_frequency = 1;
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
    return layer >= first_moe_layer && layer % moe_frequency == 0;
  }
};

/// More banks than any model has; K3 has 8.
inline constexpr std::size_t kMostResidualBanks = kernels::kMostResidualSources - 1;

/// Inside the root of the L2 norm of KDA's queries and keys (SPEC 6.3).
inline constexpr float kL2Epsilon = 1e-6f;

/// Reads config.json's text. Every fault is listed: missing fields, values that are not supported,
/// fields that are not understood. ErrorKind::model_files.
Result<KimiConfig> parse_kimi_config(const std::string& text);

}  // namespace sluice::model
