#include "cli/forecast.h"

#include <algorithm>
#include <limits>
#include <set>
#include <thread>

#include "base/size.h"
#include "base/thread_pool.h"
#include "cli/compute_options.h"
#include "engine/budget.h"
#include "text/tokenizer.h"
#include "weights/placement.h"

namespace sluice::cli {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// The sizes to forecast for, without the smallest.
std::set<std::uint64_t> ladder(std::uint64_t payload) {
  if (payload >= 8 * kGiB) return {8 * kGiB, 16 * kGiB, 32 * kGiB, 64 * kGiB, 128 * kGiB};
  std::set<std::uint64_t> sizes;
  for (const std::uint64_t halves : {1u, 2u, 4u}) {
    sizes.insert(round_up(payload * halves / 2, kMiB));
  }
  return sizes;
}

class Forecaster {
 public:
  explicit Forecaster(const ModelFacts& facts)
      : facts_(facts),
        threads_(std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {
    options_.context = std::min(options_.context, facts.shape().max_positions);
  }

  Result<std::uint64_t> smallest() const {
    engine::EngineOptions options = options_;
    options.chunk = 1;
    SLUICE_ASSIGN(const engine::Budget budget,
                  budget_for(options, std::numeric_limits<std::int64_t>::max()));
    const std::uint64_t weights =
        weights::smallest_budget(facts_.blueprint().blocks, *facts_.reader);
    // Half a unit for the small differences between two starts of the program.
    return round_up(budget.needs.sum() + weights + kMiB / 2, kMiB);
  }

  Forecast at(std::uint64_t ram) const {
    Forecast result;
    result.ram = ram;
    result.context = options_.context;
    const auto budget = budget_for(options_, ram);
    if (!budget) return result;
    const auto placement =
        weights::place(facts_.blueprint().blocks, *facts_.reader, {}, ram - budget->needs.sum());
    if (!placement) return result;
    result.fits = true;
    result.chunk = budget->chunk;
    describe(*placement, result);
    return result;
  }

 private:
  Result<engine::Budget> budget_for(engine::EngineOptions options, std::uint64_t ram) const {
    options.ram = ram;
    const std::uint64_t stacks = static_cast<std::uint64_t>(threads_ - 1) * kThreadStackBytes;
    return engine::draw_up_budget(options, *facts_.architecture, *facts_.reader, threads_,
                                  stacks + facts_.reader->memory_bytes());
  }

  void describe(const weights::Placement& placement, Forecast& result) const {
    const auto& tiles = placement.schedule.tiles;
    for (std::size_t tile = 0; tile < tiles.size(); ++tile) {
      std::uint64_t& sum =
          placement.resident[tile] ? result.resident_bytes : result.bytes_per_token;
      sum += tiles[tile].extent.length;
    }
    const weights::Blocks& blocks = facts_.blueprint().blocks;
    for (std::size_t i = 0; i < blocks.expert_layers.size(); ++i) {
      const weights::ExpertLayer& layer = blocks.expert_layers[i];
      const std::size_t slots = placement.bank_slots[i];
      result.cached_experts += slots;
      result.bytes_per_token +=
          std::min(blocks.top_k, layer.experts.size() - slots) * layer.block_bytes();
    }
    result.bytes_per_token += bytes_of_a_token(facts_).embedding;
  }

  const ModelFacts& facts_;
  const int threads_;
  engine::EngineOptions options_;
};

}  // namespace

Result<std::vector<Forecast>> forecast(const ModelFacts& facts,
                                       std::optional<std::uint64_t> asked) {
  // A run with text holds the tokenizer, so it belongs into a forecast. A model without one can
  // still be run with ids.
  const auto tokenizer = text::Tokenizer::load(facts.folder);
  const Forecaster forecaster(facts);
  SLUICE_ASSIGN(const std::uint64_t smallest, forecaster.smallest());
  std::set<std::uint64_t> sizes = ladder(facts.payload_bytes);
  sizes.insert(smallest);
  if (asked) sizes.insert(*asked);
  std::vector<Forecast> forecasts;
  for (const std::uint64_t ram : sizes) {
    forecasts.push_back(forecaster.at(ram));
    forecasts.back().is_smallest = ram == smallest;
  }
  return forecasts;
}

}  // namespace sluice::cli
