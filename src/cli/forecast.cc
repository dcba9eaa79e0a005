#include "cli/forecast.h"

#include <algorithm>
#include <set>

#include "engine/fit.h"
#include "engine/machine.h"
#include "engine/model_text.h"
#include "engine/plan.h"

namespace sluice::cli {
namespace {

// What a run has on the heap that a forecast has not: prompt, answer, what is counted.
constexpr std::uint64_t kOfARun = std::uint64_t{64} << 10;

Forecast forecast_at(const ModelFacts& facts, const engine::FitOptions& how, std::uint64_t ram) {
  Forecast result;
  result.ram = ram;
  result.context = how.context;
  const auto fit = engine::fit(*facts.architecture, *facts.reader, how, ram);
  if (!fit) return result;
  const engine::Residence residence =
      engine::residence_of(*facts.architecture, fit->placement, fit->budget.chunk);
  result.fits = true;
  result.chunk = residence.chunk;
  result.resident_bytes = residence.resident_bytes;
  result.cached_experts = residence.cached_experts();
  result.bytes_per_token = residence.streamed_bytes + bytes_of_a_token(facts).embedding;
  for (const engine::Bank& bank : residence.banks) {
    result.bytes_per_token += std::min(bank.top_k, bank.experts - bank.slots) * bank.expert_bytes;
  }
  return result;
}

}  // namespace

std::uint64_t memory_of_a_run(const ModelFacts& facts) {
  if (facts.files.empty()) return engine::program_memory() + kOfARun;  // only a configuration
  // A run with text holds the tokenizer. A model without one can still be run with ids.
  const auto& first = facts.files.front().path;
  const auto tokenizer =
      engine::load_tokenizer(first.extension() == ".gguf" ? first : facts.folder);
  return engine::program_memory() + kOfARun;
}

Result<std::vector<Forecast>> forecast(const ModelFacts& facts, const ForecastOptions& options) {
  SLUICE_TRY(check_context(facts, options.context));
  engine::FitOptions how;
  how.context = options.context.value_or(std::min(how.context, facts.shape().max_positions));
  how.threads = engine::usable_cores();
  how.program = memory_of_a_run(facts);
  SLUICE_ASSIGN(const std::uint64_t smallest,
                engine::smallest_fit(*facts.architecture, *facts.reader, how));
  std::set<std::uint64_t> sizes = engine::memory_ladder(facts.payload_bytes);
  sizes.insert(smallest);
  if (options.ram) sizes.insert(*options.ram);
  std::vector<Forecast> forecasts;
  for (const std::uint64_t ram : sizes) {
    forecasts.push_back(forecast_at(facts, how, ram));
    forecasts.back().is_smallest = ram == smallest;
  }
  return forecasts;
}

}  // namespace sluice::cli
