// How a reader reads. None of it changes a byte of what is read.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "io/read_fully.h"
#include "io/system.h"

namespace sluice::io {

struct ReaderOptions {
  int threads = 8;  ///< of a pool, per drive; so many reads are under way at most
  /// Of a ring, per drive; so many reads are under way at most. 0: found while reading.
  int queue_depth = 0;
  /// Extents are read in pieces of this size; a multiple of kRoomAlignment.
  std::uint64_t piece_bytes = std::uint64_t{4} << 20;
  bool direct = true;  ///< past the page cache where possible
  /// At most this much per system call; a multiple of kRoomAlignment.
  std::size_t max_call_bytes = kMaxCallBytes;
  /// After so long without any read that comes back from a drive, the user is told.
  std::chrono::milliseconds stall_after{10'000};
  const System* system = &operating_system();  ///< must outlive the reader
};

}  // namespace sluice::io
