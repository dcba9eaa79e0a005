// What the system says about memory: of this process, of its control group, of the machine.
#pragma once

#include <cstdint>

namespace sluice {

/// Resident memory of this process now, in bytes (0 where the system does not tell).
std::uint64_t resident_memory();

/// Highest resident memory of this process so far, in bytes (0 where the system does not tell).
std::uint64_t peak_resident_memory();

/// Memory that this process could take without pressing others: the smaller of what the machine
/// has available and what its control group (v1 or v2, all ancestors) leaves, in bytes.
std::uint64_t available_memory();

}  // namespace sluice
