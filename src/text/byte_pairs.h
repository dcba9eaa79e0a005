// Byte-pair encoding by rank (SPEC 9.4).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace sluice::text {

/// Encodes pieces one after another, keeping its buffers. Time O(n log n) in the piece's bytes.
class BytePairEncoder {
 public:
  /// The vocabulary must outlive the encoder.
  explicit BytePairEncoder(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  /// Appends the ids of `piece`: one if its bytes are a token; otherwise single bytes, of which the
  /// adjacent pair with the lowest rank, the leftmost among equals, is merged until none is left.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids);

 private:
  void offer(std::uint32_t start);
  void merge_all();

  // A part is a byte range of the piece, named by its start.
  struct Part {
    std::uint32_t next;      // start of the part behind it; 0: merged into the one before it
    std::uint32_t previous;  // start of the part before it
    std::int32_t id;
  };

  const Vocabulary& vocabulary_;
  std::string_view piece_;
  std::vector<Part> parts_;          // [bytes]
  std::vector<std::uint64_t> heap_;  // rank << 32 | start of the pair
};

}  // namespace sluice::text
