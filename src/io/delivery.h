// The last step of every request: count it and hand it to its sink.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "io/reader.h"
#include "io/request_queue.h"

namespace sluice::io {

/// Thread-safe.
class Delivery {
 public:
  /// Counts the request, completes it at its sink, and tells the queue that it came from.
  void deliver(Request& request, RequestQueue& queue);

  /// Fills in `requested_bytes` and `delivered_bytes`.
  void add_statistics(ReaderStatistics& statistics) const;

 private:
  std::array<std::atomic<std::uint64_t>, kPurposes> by_purpose_{};
  std::array<std::atomic<std::uint64_t>, kPriorities> by_priority_{};
};

}  // namespace sluice::io
