// A model at a memory size, without a run: the engine's own budget and placement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>

#include "base/result.h"
#include "engine/budget.h"
#include "io/reader.h"
#include "model/network.h"
#include "weights/placement.h"

namespace sluice::engine {

/// How a plan takes the machine and the run to be.
struct FitOptions {
  std::size_t context = 4096;
  int threads = 1;
  /// Bytes that the program itself holds; default: what it holds now.
  std::optional<std::uint64_t> program = std::nullopt;
};

struct Fit {
  Budget budget;
  weights::Placement placement;
};

/// What a run with --ram `ram` would do. Nothing is read: of `reader` only its rounding and its own
/// memory count. ErrorKind::memory when it does not fit.
Result<Fit> fit(const model::Architecture& architecture, const io::Reader& reader,
                const FitOptions& options, std::uint64_t ram);

/// The smallest `ram` for which fit() succeeds, rounded up to MiB.
Result<std::uint64_t> smallest_fit(const model::Architecture& architecture,
                                   const io::Reader& reader, const FitOptions& options);

/// Memory sizes worth a line: 8, 16, 32, 64 and 128 GiB; for a model that is smaller than all of
/// them, half, once and twice its size.
std::set<std::uint64_t> memory_ladder(std::uint64_t payload_bytes);

}  // namespace sluice::engine
