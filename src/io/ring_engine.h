// One io_uring for all drives, and the one thread that feeds it and empties it.
#pragma once

#include <memory>

#include "io/lane.h"
#include "io/reader_options.h"

namespace sluice::io {

/// Entries of the ring: reads under way on all drives together (four drives at the depth of 64, but
/// one), and the wait for what wakes its thread.
inline constexpr unsigned kRingEntries = 256;

/// Thread-safe. Must outlive its lanes.
class RingEngine {
 public:
  virtual ~RingEngine() = default;

  /// A lane whose files must be DirectFiles.
  virtual std::unique_ptr<Lane> make_lane(Delivery& delivery) = 0;
};

/// Null where the kernel refuses a ring, with the reason in `error`.
std::unique_ptr<RingEngine> make_ring_engine(const ReaderOptions& options, int& error);

}  // namespace sluice::io
