// What serves the requests of one drive.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "io/delivery.h"
#include "io/request_queue.h"

namespace sluice::io {

/// A queue and whoever empties it. The destructor settles what is outstanding.
class Lane {
 public:
  virtual ~Lane() = default;

  virtual RequestQueue& queue() = 0;
  /// To be called after every change of the queue.
  virtual void wake() {}
  /// Memory that the lane holds: stacks and buffers, in bytes.
  virtual std::uint64_t memory_bytes() const = 0;
};

/// Makes the lane of a drive when the first file on it is opened. `delivery` outlives the lane.
using LaneMaker =
    std::function<Result<std::unique_ptr<Lane>>(const OpenFile& first, Delivery& delivery)>;

}  // namespace sluice::io
