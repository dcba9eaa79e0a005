// The small files beside a pack's index: whether they are still what they were.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"
#include "store/pack_index.h"

namespace sluice::store {

/// Reads each companion in `folder`. One error for each that is missing, cannot be read, or is not
/// the file that was packed.
std::vector<Error> wrong_companions(std::span<const PackCompanion> companions,
                                    const std::filesystem::path& folder);

/// The same as one error, if anything is wrong.
Status expect_companions(std::span<const PackCompanion> companions,
                         const std::filesystem::path& folder);

/// The same for the pack whose index this is, for those who need the small files and not the
/// weights; what is wrong with the index itself is an error too.
Status expect_companions_of(const std::filesystem::path& index);

}  // namespace sluice::store
