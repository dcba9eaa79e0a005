// What the drives with a model's files can do, measured before the model is opened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "engine/options.h"

namespace sluice::server {

struct DriveLimit {
  std::uint64_t device = 0;  ///< its st_dev
  double bytes_per_s = 0;
};

/// Reads random pieces of the model's large files for a moment, drive by drive. A drive that has
/// none, or that cannot be read, is left out: whatever is wrong with it is told when the model is
/// opened. Takes at most a quarter of options.ram meanwhile.
std::vector<DriveLimit> measure_drive_limits(const engine::EngineOptions& options);

/// Of one of them, if it was measured.
std::optional<double> limit_of(const std::vector<DriveLimit>& limits, std::uint64_t device);

}  // namespace sluice::server
