// How much each expert is used.
#pragma once

#include <vector>

namespace sluice::weights {

/// Uses by layer (as Blocks::expert_layers) and expert; older ones count less. Empty: not known.
using ExpertUse = std::vector<std::vector<float>>;

}  // namespace sluice::weights
