// Reading a whole small file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace sluice::text {

/// The bytes of a regular file. Fails with ErrorKind::model_files if it is missing, is no regular
/// file, holds more than `limit` bytes or cannot be read.
Result<std::string> read_small_file(const std::filesystem::path& path, std::uint64_t limit);

}  // namespace sluice::text
