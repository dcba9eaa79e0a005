// One piece on its way through a ring: which read comes next, and what a result means for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "io/direct_file.h"
#include "io/request_queue.h"

namespace sluice::io {

/// The read that a flight needs next.
struct NextRead {
  int descriptor = -1;
  std::byte* to = nullptr;
  std::size_t length = 0;
  std::uint64_t offset = 0;
  bool patient = false;
};

/// Takes a piece from its first read to its last. It first reads what direct I/O can, then the rest
/// through the page cache, going on after short, interrupted and refused reads.
class RingFlight {
 public:
  RingFlight() = default;
  RingFlight(const Piece& piece, std::size_t max_call_bytes);

  const Piece& piece() const { return piece_; }
  const PieceResult& result() const { return result_; }

  NextRead next();

  enum class State {
    more,   ///< next() has to be read
    stuck,  ///< the ring does not get further: finish_here() does, and blocks meanwhile
    over,   ///< result() stands
  };
  /// Takes in what came of next(): bytes, or -errno.
  State advance(std::int64_t result);

  /// Reads the rest with plain system calls.
  void finish_here();

 private:
  State advance_direct(std::int64_t result);
  State advance_buffered(std::int64_t result);
  State take(std::uint64_t bytes);
  State fail_with(std::int64_t result);
  std::uint64_t direct_left() const;

  Piece piece_;
  DirectFile* file_ = nullptr;
  std::size_t max_call_bytes_ = 0;
  PieceResult result_;
  bool reading_direct_ = false;  // the read that is under way
  bool buffered_ = false;        // no direct read any more
  int retries_ = 0;              // since the last progress
};

}  // namespace sluice::io
