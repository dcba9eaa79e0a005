// Where the weight files of a model lie, when they are spread over folders or there more than once.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "store/faults.h"

namespace sluice::store {

/// The paths of one weight file: the first is the original, the others are its copies. None: it is
/// in no folder.
using Places = std::vector<std::filesystem::path>;

/// Whether something has that path: a broken link, too, which is a fault of its own.
bool is_there(const std::filesystem::path& path);

/// The folders of `asked` that can be searched: one that is a model's folder of a Hugging Face
/// cache stands for its snapshot. Those that are not there are faults.
std::vector<std::filesystem::path> searchable(const std::vector<std::filesystem::path>& asked,
                                              FaultList& faults);

/// Looks for each file in `folder` first and then in `further`, in their order. Two ways to one
/// file are one place. A further folder that holds none of the files, or only what was found
/// before, is noted.
std::vector<Places> find_places(const std::vector<std::string>& files,
                                const std::filesystem::path& folder,
                                const std::vector<std::filesystem::path>& further,
                                std::vector<std::string>& notes);

}  // namespace sluice::store
