// A pack is one stream of bytes, dealt in chunks to files on several drives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/function_ref.h"

namespace sluice::store {

/// A range of the data of one of the files ("parts") that a stream is dealt to.
struct PartExtent {
  std::uint32_t part = 0;
  std::uint64_t offset = 0;  ///< in the part's data, which follows its header
  std::uint64_t length = 0;
};

/// Which bytes of the stream lie in which part: chunk c of the stream goes to part
/// deal[c % deal.size()], behind the chunks that the part has already.
class Stripes {
 public:
  /// `chunk_bytes` is a multiple of 4096; every part below `parts` is in the deal, and no other.
  Stripes(std::uint64_t chunk_bytes, std::vector<std::uint8_t> deal, std::size_t parts);

  std::size_t parts() const { return chunks_of_.size(); }
  std::uint64_t chunk_bytes() const { return chunk_bytes_; }
  const std::vector<std::uint8_t>& deal() const { return deal_; }

  /// Calls visit(at, extent) for the pieces of [offset, offset + length) of the stream, in order;
  /// `at` is where in the stream a piece begins. Pieces that touch in their part are one.
  void for_each(std::uint64_t offset, std::uint64_t length,
                FunctionRef<void(std::uint64_t at, const PartExtent&)> visit) const;

  /// Bytes of the part's data when the stream has `stream_bytes`.
  std::uint64_t part_bytes(std::size_t part, std::uint64_t stream_bytes) const;

 private:
  PartExtent chunk(std::uint64_t index) const;

  std::uint64_t chunk_bytes_;
  std::vector<std::uint8_t> deal_;
  std::vector<std::uint32_t> rank_;       // by place in the deal: chunks of the same part before it
  std::vector<std::uint64_t> chunks_of_;  // by part: its chunks in one deal
};

/// A deal in which each part comes up in proportion to its weight (positive, finite), as evenly
/// spread as can be. Parts too slow to get one chunk in `most` are left out: false in `used`.
/// Their places in the deal are numbered as if they were not there.
struct Deal {
  std::vector<std::uint8_t> parts;
  std::vector<bool> used;
};
Deal deal_by_weight(const std::vector<double>& weights);

inline constexpr std::size_t kMostParts = 64;
inline constexpr std::size_t kMostDeal = 256;

}  // namespace sluice::store
