#include "engine/fit.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/size.h"
#include "base/thread_pool.h"

namespace sluice::engine {
namespace {

Result<Budget> budget_for(const model::Architecture& architecture, const io::Reader& reader,
                          const FitOptions& options, std::uint64_t ram,
                          std::optional<std::size_t> chunk) {
  EngineOptions run;
  run.ram = ram;
  run.chunk = chunk;
  run.context = std::min(options.context, architecture.shape().max_positions);
  const std::uint64_t stacks = static_cast<std::uint64_t>(options.threads - 1) * kThreadStackBytes;
  return draw_up_budget(run, architecture, reader, options.threads, stacks + reader.memory_bytes(),
                        {}, options.program.value_or(program_memory()));
}

}  // namespace

Result<Fit> fit(const model::Architecture& architecture, const io::Reader& reader,
                const FitOptions& options, std::uint64_t ram) {
  Fit result;
  SLUICE_ASSIGN(result.budget, budget_for(architecture, reader, options, ram, std::nullopt));
  SLUICE_ASSIGN(result.placement, weights::place(architecture.blueprint().blocks, reader, {},
                                                 result.budget.ram - result.budget.needs.sum()));
  return result;
}

Result<std::uint64_t> smallest_fit(const model::Architecture& architecture,
                                   const io::Reader& reader, const FitOptions& options) {
  SLUICE_ASSIGN(const Budget budget,
                budget_for(architecture, reader, options, std::numeric_limits<std::int64_t>::max(),
                           std::size_t{1}));
  const std::uint64_t weights = weights::smallest_budget(architecture.blueprint().blocks, reader);
  return stated_budget(budget.needs.sum() + weights);
}

std::set<std::uint64_t> memory_ladder(std::uint64_t payload_bytes) {
  if (payload_bytes >= 8 * kGiB) return {8 * kGiB, 16 * kGiB, 32 * kGiB, 64 * kGiB, 128 * kGiB};
  std::set<std::uint64_t> sizes;
  for (const std::uint64_t halves : {1u, 2u, 4u}) {
    sizes.insert(round_up(payload_bytes * halves / 2, kMiB));
  }
  return sizes;
}

}  // namespace sluice::engine
