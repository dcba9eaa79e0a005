// What the weights layer is handed: matrices in the order of their use, and experts. It knows no
// architecture and no arithmetic, only bytes, rows and the order in which they are wanted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "io/reader.h"

namespace sluice::weights {

/// Index into Blocks::matrices.
using MatrixId = std::uint32_t;

/// A matrix of the trunk or the output head: rows of equal size, one after the other on the drive.
struct MatrixBlock {
  std::string name;  ///< the tensor's, for messages
  io::Extent extent;
  std::uint64_t rows = 0;
  std::uint64_t rows_together = 1;  ///< all tiles but the last hold a multiple of this many rows
  std::uint64_t row_bytes() const { return extent.length / rows; }
};

inline constexpr std::size_t kMaxParts = 6;

/// Where the parts of one expert lie. The lengths are the layer's (ExpertLayer::part_bytes).
struct ExpertPlace {
  std::array<std::uint64_t, kMaxParts> offset{};
  std::array<io::FileId, kMaxParts> file{};
};

/// The routed experts of one layer; each is a block: read, cached and evicted as a whole.
struct ExpertLayer {
  std::size_t parts = 0;  ///< arrays per expert, at most kMaxParts
  std::array<std::uint64_t, kMaxParts> part_bytes{};
  std::vector<ExpertPlace> experts;

  std::uint64_t block_bytes() const {
    std::uint64_t sum = 0;
    for (std::size_t part = 0; part < parts; ++part) sum += part_bytes[part];
    return sum;
  }
};

/// All blocks of a model. `matrices` are in the order in which every pass uses them; those from
/// `first_head_matrix` on are used only by passes that want logits.
struct Blocks {
  std::vector<MatrixBlock> matrices;
  MatrixId first_head_matrix = 0;
  std::vector<ExpertLayer> expert_layers;  ///< by layer; layers without experts have none
  std::size_t top_k = 0;                   ///< experts that one position uses per layer
};

}  // namespace sluice::weights
