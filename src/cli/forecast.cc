#include "cli/forecast.h"

#include <algorithm>
#include <set>

#include "engine/fit.h"
#include "engine/machine.h"
#include "text/tokenizer.h"

namespace sluice::cli {
namespace {

void describe(const ModelFacts& facts, const weights::Placement& placement, Forecast& result) {
  const auto& tiles = placement.schedule.tiles;
  for (std::size_t tile = 0; tile < tiles.size(); ++tile) {
    std::uint64_t& sum = placement.resident[tile] ? result.resident_bytes : result.bytes_per_token;
    sum += tiles[tile].extent.length;
  }
  const weights::Blocks& blocks = facts.blueprint().blocks;
  for (std::size_t i = 0; i < blocks.expert_layers.size(); ++i) {
    const weights::ExpertLayer& layer = blocks.expert_layers[i];
    const std::size_t slots = placement.bank_slots[i];
    result.cached_experts += slots;
    result.bytes_per_token +=
        std::min(blocks.top_k, layer.experts.size() - slots) * layer.block_bytes();
  }
  result.bytes_per_token += bytes_of_a_token(facts).embedding;
}

Forecast forecast_at(const ModelFacts& facts, const engine::FitOptions& how, std::uint64_t ram) {
  Forecast result;
  result.ram = ram;
  result.context = how.context;
  const auto fit = engine::fit(*facts.architecture, *facts.reader, how, ram);
  if (!fit) return result;
  result.fits = true;
  result.chunk = fit->budget.chunk;
  describe(facts, fit->placement, result);
  return result;
}

}  // namespace

Result<std::vector<Forecast>> forecast(const ModelFacts& facts, const ForecastOptions& options) {
  // A run with text holds the tokenizer, so it belongs into a forecast. A model without one can
  // still be run with ids.
  const auto tokenizer = text::Tokenizer::load(facts.folder);
  SLUICE_TRY(check_context(facts, options.context));
  engine::FitOptions how;
  how.context = options.context.value_or(std::min(how.context, facts.shape().max_positions));
  how.threads = engine::usable_cores();
  how.program = engine::program_memory();
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
