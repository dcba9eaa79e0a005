#include "engine/budget.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <bit>

#include "base/buffer.h"
#include "base/memory_info.h"
#include "base/size.h"
#include "engine/drafter.h"
#include "weights/expert_activity.h"
#include "weights/placement.h"

namespace sluice::engine {
namespace {

// For what grows after the budget is drawn up: code pages touched for the first time, the heap of
// requests and statistics, text on its way out. Measured at 1.2 MiB for k3-nano, 1.9 MiB for the
// full K3.
constexpr std::uint64_t kSlack = 5 * kMiB / 2;

// Resident beside the heap: pages of code and libraries, the main stack. How many pages of a file
// the system brings in with one is its own affair, and differs from start to start, so this is a
// bound well above what was measured: 9.4 to 10.0 MiB (more in a server that keeps jobs, whose
// size is then what was measured).
constexpr std::uint64_t kCodeBytes = 12 * kMiB;

// A budget is named with the margin. The heap of two starts of the program differs by some bytes at
// most, for which it is taken with a little less; what was measured differs by some pages.
constexpr std::uint64_t kMargin = kMiB / 4;
constexpr std::uint64_t kJitterOfHeap = std::uint64_t{1} << 10;
constexpr std::uint64_t kJitterOfPages = kMargin;

// Prefill reads every weight once per chunk: doubling a chunk halves the bytes per token, as long
// as its activations do not crowd out weights that could stay.
constexpr std::size_t kLargestChunk = 512;
constexpr std::uint64_t kActivationShare = 8;

// Of what is left, for saved sequences: weights that could stay come first.
constexpr std::uint64_t kSavedShare = 4;
// And for adapters beside the largest: one that is not there is one read away.
constexpr std::uint64_t kAdapterShare = 8;

FixedNeeds needs_for(const EngineOptions& options, const model::Architecture& architecture,
                     int threads, std::uint64_t thread_stacks, const AdapterNeeds& adapters,
                     std::uint64_t program, std::size_t chunk) {
  FixedNeeds needs;
  needs.program = program + kSlack + options.reserve;
  if (options.drafts > 0) needs.program += Drafter::memory_bytes(options.context);
  if (options.watch_experts) {
    needs.program += weights::ExpertActivity::memory_bytes(architecture.blueprint().blocks);
  }
  needs.thread_stacks = thread_stacks;
  needs.vectors = Buffer::charge_for(architecture.blueprint().vector_floats * sizeof(float));
  needs.state = capped_product(options.sequences, architecture.state_bytes(options.context));
  needs.activations =
      architecture.activation_bytes(limits_for(options, chunk, adapters.rank), threads);
  needs.adapters = std::min(options.adapter_ram.value_or(adapters.largest), adapters.all);
  return needs;
}

/// "--ram 21M", which is never less than what is needed.
std::string flag_for(std::uint64_t bytes) {
  return fmt::format("--ram {}M", stated_budget(bytes) / kMiB);
}

/// For a number whose letter was forgotten; with one it would be more.
std::string hint_for(std::uint64_t ram) {
  if (ram >= 1024) return "";
  return fmt::format(" (did you mean {}M or {}G? a number alone is bytes)", ram, ram);
}

/// `without_chunk`: the smallest that works where the prompt goes through one position at a time.
tl::unexpected<Error> too_small(const EngineOptions& options, const FixedNeeds& needs,
                                std::uint64_t weights, std::uint64_t ram,
                                std::uint64_t without_chunk) {
  const std::uint64_t smallest = needs.sum() + weights;
  std::string given = options.chunk ? fmt::format(" and --chunk {}", *options.chunk) : "";
  if (options.drafts > 0) given += fmt::format(" and --draft {}", options.drafts);
  const std::string other = stated_budget(without_chunk) < stated_budget(smallest)
                                ? fmt::format(" ({} without --chunk)", flag_for(without_chunk))
                                : "";
  const std::string adapters =
      needs.adapters > 0 ? fmt::format("adapters {}, ", format_size(needs.adapters)) : "";
  return fail(
      ErrorKind::memory,
      "{} of memory{} is too small for this model; the smallest that works, with --ctx {}{}, "
      "is {}{}, rounded up to whole MiB: program {}, thread stacks {}, small tensors {}, "
      "state and KV cache {}, activations {}, {}weights on their way {}",
      format_size(ram), hint_for(ram), options.context, given, flag_for(smallest), other,
      format_size(needs.program), format_size(needs.thread_stacks), format_size(needs.vectors),
      format_size(needs.state), format_size(needs.activations), adapters, format_size(weights));
}

/// At least one adapter has to be in memory for its passes.
Status check_adapter_ram(const EngineOptions& options, const AdapterNeeds& adapters) {
  if (!options.adapter_ram || *options.adapter_ram >= adapters.largest) return {};
  return fail(ErrorKind::usage,
              "--lora-ram: the largest adapter takes {}, more than {}; the smallest that works is "
              "--lora-ram {}",
              format_size(adapters.largest), format_size(*options.adapter_ram), adapters.largest);
}

/// `free`: what is left when everything else has its smallest room.
tl::unexpected<Error> no_room_for_saved(const EngineOptions& options, std::uint64_t ram,
                                        std::uint64_t free) {
  return fail(
      ErrorKind::memory,
      "--state-ram: {} for saved conversations do not fit into {} of memory, of which {} are "
      "left for them; the smallest that works with so much is {}",
      format_size(options.saved_states), format_size(ram), format_size(free),
      flag_for(ram - free + options.saved_states));
}

}  // namespace

std::uint64_t program_memory() {
#if defined(__GLIBC__)
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd + kCodeBytes;
#else
  return resident_memory();
#endif
}

std::uint64_t measured_program_memory() {
#ifdef SLUICE_SANITIZED
  return program_memory();
#else
  return std::max(resident_memory(), program_memory());
#endif
}

std::uint64_t stated_budget(std::uint64_t bytes) { return round_up(bytes + kMargin, kMiB); }

std::uint64_t default_budget(std::uint64_t program, std::uint64_t available) {
  return program + available / 4 * 3;
}

model::PassLimits limits_for(const EngineOptions& options, std::size_t chunk,
                             std::size_t adapter_rank) {
  const std::size_t drafted = 1 + options.drafts;
  const std::size_t positions = std::max(chunk, drafted);
  return {.positions = positions,
          .logit_rows = options.all_logits ? positions : std::max(options.sequences, drafted),
          .context = options.context,
          .adapter_rank = adapter_rank,
          .drafts = options.drafts};
}

Result<Budget> draw_up_budget(const EngineOptions& options, const model::Architecture& architecture,
                              const io::Reader& reader, int threads, std::uint64_t thread_stacks,
                              const AdapterNeeds& adapters, std::uint64_t program) {
  SLUICE_TRY(check_adapter_ram(options, adapters));
  Budget budget;
  budget.ram = options.ram.value_or(default_budget(program, available_memory()));
  const std::uint64_t weights = weights::smallest_budget(architecture.blueprint().blocks, reader);
  const auto needs = [&](std::size_t chunk) {
    return needs_for(options, architecture, threads, thread_stacks, adapters, program, chunk);
  };
  // The positions of a pass with drafts are paid for: a chunk may as well have them.
  const std::size_t least_chunk = std::bit_floor(std::min(1 + options.drafts, options.context));
  budget.chunk = std::min(options.chunk.value_or(least_chunk), options.context);
  budget.needs = needs(budget.chunk);
  const std::uint64_t jitter = program > program_memory() ? kJitterOfPages : kJitterOfHeap;
  if (budget.needs.sum() + weights + kMargin - jitter > budget.ram) {
    return too_small(options, budget.needs, weights, budget.ram, needs(1).sum() + weights);
  }
  std::uint64_t free = budget.ram - budget.needs.sum() - weights;
  if (options.saved_states_are_asked && options.saved_states > free) {
    return no_room_for_saved(options, budget.ram, free);
  }
  budget.saved_states = options.saved_states_are_asked
                            ? options.saved_states
                            : std::min(options.saved_states, free / kSavedShare);
  free -= budget.saved_states;
  const std::uint64_t more_adapters =
      options.adapter_ram ? 0
                          : std::min(adapters.all - budget.needs.adapters, free / kAdapterShare);
  free -= more_adapters;
  const std::uint64_t for_drafts = options.drafts > 0 ? budget.needs.activations : 0;
  while (!options.chunk && budget.chunk * 2 <= std::min(kLargestChunk, options.context)) {
    const FixedNeeds larger = needs(budget.chunk * 2);
    if (larger.activations - for_drafts > free / kActivationShare) break;
    budget.chunk *= 2;
    budget.needs = larger;
  }
  budget.needs.state += budget.saved_states;
  budget.needs.adapters += more_adapters;
  return budget;
}

}  // namespace sluice::engine
