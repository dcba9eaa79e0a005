// A loop that only reads: the limit that memory sets to every kernel.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

/// Reads `bytes` bytes at `data` (64-byte aligned) in the widest loads that there are, and makes a
/// number of them, so that no compiler leaves the reading out. What is left over after the last
/// whole group of vectors is not read.
std::uint64_t read_all(const std::byte* data, std::size_t bytes);

}  // namespace sluice::kernels
