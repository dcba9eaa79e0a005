// What the system says about memory: of this process, of its control group, of the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice {

/// Resident memory of this process now, in bytes (0 where the system does not tell).
std::uint64_t resident_memory();

/// Highest resident memory of this process so far, in bytes (0 where the system does not tell).
std::uint64_t peak_resident_memory();

/// Memory that this process could take without pressing others: the smaller of what the machine
/// has available and what its control group (v1 or v2, all ancestors) leaves, in bytes.
std::uint64_t available_memory();

/// Time that tasks waited for memory since some moment, in seconds (pressure stall information): of
/// this process's control group (v2) where it tells, else of the machine; 0 where nobody tells.
double memory_stall_s();

/// Page faults of this process, since its start, that had to be read from a drive.
std::uint64_t major_faults();

/// Whether memory of this process has not been touched yet: its first use costs the kernel time,
/// for zeroing. Looks at both ends only.
bool is_untouched(const std::byte* memory, std::size_t bytes);

/// Memory of the machine, in bytes (0 where the system does not tell).
std::uint64_t total_memory();

/// What the process's control group and its ancestors allow in all, in bytes; none where that is
/// no less than the machine has.
std::optional<std::uint64_t> memory_limit();

}  // namespace sluice
