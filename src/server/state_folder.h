// The folder of what outlives the server: what people said is nobody else's to read.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace sluice::server {

/// Makes it for its owner alone; one that is there keeps its rights. ErrorKind::usage if that is no
/// folder or holds a model; if it cannot be made, io::kind_of_refused_place().
Status make_state_folder(const std::filesystem::path& folder);

/// Makes an empty file for its owner alone, or takes the rights of all others from one of ours that
/// is there. ErrorKind::usage if that is not a file; likewise if it cannot be made.
Status make_private_file(const std::filesystem::path& file);

}  // namespace sluice::server
