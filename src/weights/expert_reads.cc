#include "weights/expert_reads.h"

#include <algorithm>
#include <tuple>

namespace sluice::weights {

PartReads reads_of(const ExpertLayer& layer, const ExpertPlace& place) {
  PartReads reads;
  auto order = std::span(reads.order_).first(layer.parts);
  for (std::size_t part = 0; part < layer.parts; ++part) order[part] = part;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(place.file[a], place.offset[a]) < std::tie(place.file[b], place.offset[b]);
  });
  for (std::size_t position = 0; position < layer.parts; ++position) {
    const std::size_t part = order[position];
    const io::Extent extent = {place.file[part], place.offset[part], layer.part_bytes[part]};
    if (reads.size_ > 0) {
      PartRead& last = reads.reads_[reads.size_ - 1];
      if (last.extent.file == extent.file &&
          last.extent.offset + last.extent.length == extent.offset) {
        last.extent.length += extent.length;
        ++last.count;
        continue;
      }
    }
    reads.reads_[reads.size_++] = {extent, position, 1};
  }
  return reads;
}

}  // namespace sluice::weights
