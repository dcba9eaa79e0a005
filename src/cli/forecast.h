// What a memory size would do for a model: the engine's own budget and placement, without a run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "cli/model_facts.h"

namespace sluice::cli {

struct Forecast {
  std::uint64_t ram = 0;
  std::size_t context = 0;  ///< positions that there is room for
  bool fits = false;
  bool is_smallest = false;  ///< less does not work
  // The rest only if it fits.
  std::size_t chunk = 0;              ///< positions per prefill pass
  std::uint64_t resident_bytes = 0;   ///< of trunk and head, kept for the whole run
  std::uint64_t cached_experts = 0;   ///< room for this many
  std::uint64_t bytes_per_token = 0;  ///< read at most, when no cached expert is picked by chance
};

struct ForecastOptions {
  std::optional<std::uint64_t> ram;    ///< a size to forecast for beside the others
  std::optional<std::size_t> context;  ///< default: the engine's
};

/// What the program itself will hold when the model is run with text, in bytes.
std::uint64_t memory_of_a_run(const ModelFacts& facts);

/// Forecasts for one sequence: the smallest budget that works, the sizes that people have (or, for
/// a small model, sizes around its own), and the one that was asked for. They depend on the model,
/// the context and the number of cores, not on what is free at the moment. ErrorKind::usage for
/// a context that the model was not made for.
Result<std::vector<Forecast>> forecast(const ModelFacts& facts, const ForecastOptions& options);

}  // namespace sluice::cli
