// The order of a pack: which tensors make its blocks, and where they come from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/reader.h"
#include "model/network.h"
#include "store/checkpoint.h"
#include "store/pack_index.h"

namespace sluice::engine {

struct PackLayout {
  store::PackIndex index;           ///< blocks, tensors and names; no chunks, folders, checksums
  std::vector<io::Extent> sources;  ///< by tensor of the index
};

/// Blocks in the order of use: the embedding (a checksum per row), small tensors, the trunk's
/// matrices (a checksum per group of rows that is no larger than the smallest tile), the routed
/// experts of each layer (one block and one checksum each), the output head, and what the
/// architecture leaves out. `files`: the reader's ids, as open_weights() gave them.
PackLayout lay_out_pack(const store::Checkpoint& checkpoint, std::span<const io::FileId> files,
                        const model::Blueprint& blueprint);

/// What must be the same for a pack that was begun to be gone on with: layout, deal and the
/// source's files with sizes and times of change.
std::uint64_t pack_identity(const PackLayout& layout, std::size_t parts,
                            const store::Checkpoint& checkpoint);

}  // namespace sluice::engine
