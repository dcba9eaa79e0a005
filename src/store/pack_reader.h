// Reading a pack's stream through any other reader, every byte checked before it is handed out.
#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "io/reader.h"
#include "store/pack.h"

namespace sluice::store {

/// The reader's id of the stream. Other ids are those of the inner reader.
inline constexpr io::FileId kPackStream = std::numeric_limits<io::FileId>::max();

/// The room is nobody's charge, so it is small. What reads a pack that `sluice pack` wrote begins
/// and ends where checksums do, and needs none.
inline constexpr std::uint64_t kMostBounce = std::uint64_t{1} << 20;

enum class PackCheck : bool { off, on };

/// A Reader for which the pack is one file. An extent is read from the parts that it is dealt to,
/// all at once, into its place; when all of it is there its checksums are computed, on threads of
/// the reader, and what does not match ends in ErrorKind::model_files. An extent that does
/// not begin or end where a checksum does is read with what is missing, in a room of its own of at
/// most `most_bounce` bytes; where that is too little the request ends in ErrorKind::model_files.
///
/// `parts`: the inner reader's ids of pack->parts().
std::unique_ptr<io::Reader> make_pack_reader(std::unique_ptr<io::Reader> inner,
                                             std::shared_ptr<const Pack> pack,
                                             std::vector<io::FileId> parts,
                                             PackCheck check = PackCheck::on,
                                             std::uint64_t most_bounce = kMostBounce);

}  // namespace sluice::store
