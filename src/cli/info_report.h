// The two forms of `sluice info`: for people, and for programs.
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/forecast.h"
#include "cli/model_facts.h"
#include "cli/output.h"

namespace sluice::cli {

Status write_info_text(const ModelFacts& facts, const std::vector<Forecast>& forecasts,
                       Output& output);

/// One JSON object, with the index of all blocks. Written as it is made: the full K3 has 82,432
/// experts, and no copy of their index is held.
Status write_info_json(const ModelFacts& facts, const std::vector<Forecast>& forecasts,
                       Output& output);

}  // namespace sluice::cli
