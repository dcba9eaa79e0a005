// What the kernel counts of this process's reads.
#pragma once

#include <cstdint>
#include <optional>

namespace sluice {

/// Bytes that the process had fetched from block devices since it started (`read_bytes` of
/// /proc/self/io): direct reads whole, buffered and mapped ones as far as the page cache did not
/// have them, and what the kernel read ahead. Nothing where the kernel does not tell.
std::optional<std::uint64_t> storage_bytes_read();

}  // namespace sluice
