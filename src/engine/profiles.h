// Machines that people have, for plans without the machine.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "engine/plan.h"

namespace sluice::engine {

/// Typical figures of its kind, not measurements of one machine. Speeds of weights are those of the
/// kernels' instruction sets (AVX-512, AVX2, NEON), per core, below the memory's limit.
struct MachineProfile {
  std::string_view name;
  std::string_view description;
  std::uint64_t memory_bytes;
  int cores;
  double drive_gb_s;  ///< each
  int drives;
  double memory_gb_s;     ///< all cores
  double plain_gb_s;      ///< a core, bf16
  double packed_gb_s;     ///< a core, MXFP4
  double operations_g_s;  ///< a core, 1e9 multiply-adds per second

  MachineSpeeds speeds() const;
};

std::span<const MachineProfile> machine_profiles();

/// Fails with ErrorKind::usage, listing the names there are.
Result<MachineProfile> find_profile(std::string_view name);

}  // namespace sluice::engine
