// How an expert is read: its parts, joined where they touch on the drive.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "weights/blocks.h"

namespace sluice::weights {

/// One read of an expert: parts that lie one after the other in a file.
struct PartRead {
  io::Extent extent;
  std::size_t first = 0;  ///< position in PartReads::order of the first part in this read
  std::size_t count = 0;  ///< parts in this read
};

/// The reads of one expert, in the order of the drive.
class PartReads {
 public:
  const PartRead* begin() const { return reads_.data(); }
  const PartRead* end() const { return reads_.data() + size_; }
  std::size_t size() const { return size_; }
  const PartRead& operator[](std::size_t read) const { return reads_[read]; }
  /// The part (0 .. parts-1) at this position of the drive's order.
  std::size_t part_at(std::size_t position) const { return order_[position]; }

 private:
  friend PartReads reads_of(const ExpertLayer& layer, const ExpertPlace& place);
  std::array<PartRead, kMaxParts> reads_{};
  std::array<std::size_t, kMaxParts> order_{};
  std::size_t size_ = 0;
};

PartReads reads_of(const ExpertLayer& layer, const ExpertPlace& place);

}  // namespace sluice::weights
