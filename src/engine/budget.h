// Drawing up the memory budget: what a run needs whatever the placement, and what is left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/memory_info.h"
#include "base/result.h"
#include "engine/adapter_pool.h"
#include "engine/options.h"
#include "io/reader.h"
#include "model/network.h"

namespace sluice::engine {

/// Memory that a run holds beside the weights, in bytes.
struct FixedNeeds {
  std::uint64_t program = 0;  ///< resident now, and slack for what comes later
  std::uint64_t thread_stacks = 0;
  std::uint64_t vectors = 0;
  std::uint64_t state = 0;
  std::uint64_t activations = 0;
  std::uint64_t adapters = 0;

  std::uint64_t sum() const {
    return program + thread_stacks + vectors + state + activations + adapters;
  }
};

struct Budget {
  std::uint64_t ram = 0;
  std::size_t chunk = 0;
  FixedNeeds needs;
  std::uint64_t saved_states = 0;  ///< of needs.state
};

/// What the program holds for a run of the models that are open, without the moment's share of
/// code pages: for figures that are the same at every start.
std::uint64_t program_memory();

/// The same as it is now: more where others (a library that was loaded before all) hold memory in
/// the process. A sanitizer's own memory is no part of any budget.
std::uint64_t measured_program_memory();

/// The budget to name for a need: in whole MiB, and with room for the small differences between
/// two starts of the program.
std::uint64_t stated_budget(std::uint64_t bytes);

/// The budget of a run that is given none, in bytes: what the program holds, and three quarters of
/// what is available beside it. One that fills the machine ends in its swap.
std::uint64_t default_budget(std::uint64_t program, std::uint64_t available);

/// Chooses what the options leave open and checks that the smallest placement of the weights fits
/// beside the fixed needs. ErrorKind::memory otherwise, with the sums and the smallest budget.
Result<Budget> draw_up_budget(const EngineOptions& options, const model::Architecture& architecture,
                              const io::Reader& reader, int threads, std::uint64_t thread_stacks,
                              const AdapterNeeds& adapters = {},
                              std::uint64_t program = measured_program_memory());

/// The limits of passes with this chunk size and adapters of up to this rank.
model::PassLimits limits_for(const EngineOptions& options, std::size_t chunk,
                             std::size_t adapter_rank);

}  // namespace sluice::engine
