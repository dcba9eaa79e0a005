// Writing the blocks of a pack.
#pragma once

#include <cstdint>

#include "base/cancellation.h"
#include "base/function_ref.h"
#include "engine/pack.h"
#include "engine/pack_journal.h"
#include "engine/pack_output.h"
#include "engine/pack_source.h"

namespace sluice::engine {

/// Writes the blocks that the journal does not have yet, and notes them in it.
/// progress(bytes): of the stream, so far.
Status write_blocks(const PackOptions& options, PackSource& source, PackJournal& journal,
                    PackOutput& output, FunctionRef<void(std::uint64_t)> progress,
                    const Cancellation* cancellation);

}  // namespace sluice::engine
