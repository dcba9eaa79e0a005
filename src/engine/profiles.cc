#include "engine/profiles.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/size.h"

namespace sluice::engine {
namespace {

// name, description, memory, cores, drive GB/s, drives, memory GB/s, then per core: bf16 GB/s,
// MXFP4 GB/s, 1e9 multiply-adds/s.
constexpr std::array<MachineProfile, 4> kProfiles = {{
    {"phone", "a phone with 8 GB and a drive of 1 GB/s over USB", 8 * kGiB, 4, 1.0, 1, 30, 8, 4,
     12},
    {"laptop-16", "a laptop with 16 GB and an NVMe drive of 3 GB/s", 16 * kGiB, 6, 3.0, 1, 40, 12,
     7, 30},
    {"laptop-32", "a laptop with 32 GB and an NVMe drive of 6 GB/s", 32 * kGiB, 8, 6.0, 1, 70, 14,
     8, 40},
    {"workstation", "a workstation with 128 GB and four NVMe drives of 7 GB/s", 128 * kGiB, 24, 7.0,
     4, 200, 18, 12, 60},
}};

}  // namespace

MachineSpeeds MachineProfile::speeds() const {
  constexpr double kGiga = 1e9;
  MachineSpeeds speeds;
  speeds.drive = drive_gb_s * drives * kGiga;
  speeds.memory = memory_gb_s * kGiga;
  speeds.plain = std::min(plain_gb_s * cores, memory_gb_s) * kGiga;
  speeds.packed = std::min(packed_gb_s * cores, memory_gb_s) * kGiga;
  speeds.operations = operations_g_s * cores * kGiga;
  return speeds;
}

std::span<const MachineProfile> machine_profiles() { return kProfiles; }

Result<MachineProfile> find_profile(std::string_view name) {
  std::string names;
  for (const MachineProfile& profile : kProfiles) {
    if (profile.name == name) return profile;
    names += names.empty() ? "" : ", ";
    names += profile.name;
  }
  return fail(ErrorKind::usage, "there is no machine \"{}\"; there are: {}", name, names);
}

}  // namespace sluice::engine
