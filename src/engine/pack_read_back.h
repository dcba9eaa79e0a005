// Reading a pack back before it is called done.
#pragma once

#include <cstdint>
#include <vector>

#include "base/cancellation.h"
#include "base/function_ref.h"
#include "engine/pack.h"
#include "engine/pack_journal.h"
#include "engine/pack_output.h"
#include "store/pack_index.h"

namespace sluice::engine {

/// Reads everything back that the journal does not have as verified. A block that comes back wrong
/// is noted, so that the next start writes it again: ErrorKind::drive.
/// progress(bytes): of the stream, so far.
Status read_back(const store::PackIndex& index, const std::vector<PackPart>& parts,
                 PackJournal& journal, PackOutput& output,
                 FunctionRef<void(std::uint64_t)> progress, const Cancellation* cancellation);

}  // namespace sluice::engine
