// What an adapter's adapter_config.json says (Hugging Face's PEFT, LoRA: arXiv 2106.09685).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace sluice::model {

inline constexpr std::size_t kMostRank = 1 << 14;

struct AdapterConfig {
  /// Names of modules, or ends of such names, and what they have instead of the default.
  using Pattern = std::vector<std::pair<std::string, double>>;

  std::size_t rank = 0;
  double alpha = 0;
  bool root_scaled = false;  ///< alpha / sqrt(rank) instead of alpha / rank (arXiv 2312.03732)
  Pattern ranks, alphas;
  std::vector<std::string> targets;  ///< names of modules, or ends of such; none: not known
  bool targets_all = false;          ///< every module that `targets` name has its tensors

  std::size_t rank_of(std::string_view module) const;
  /// The factor of the product of the two matrices.
  float scale_of(std::string_view module) const;
  bool is_target(std::string_view module) const;
};

/// Whether `name` is all of `module`, or its end from a dot on.
bool names_module(std::string_view name, std::string_view module);

/// Reads the text of an adapter_config.json. What it says that is not supported or not understood
/// is added to the faults. ErrorKind::model_files when it is no JSON object.
Result<AdapterConfig> parse_adapter_config(const std::string& text,
                                           std::vector<std::string>& faults);

}  // namespace sluice::model
