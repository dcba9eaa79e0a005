// Which experts a model was seen to use, kept between runs in the user's cache folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/result.h"
#include "store/shard.h"
#include "weights/blocks.h"
#include "weights/expert_use.h"

namespace sluice::engine {

/// Tells models apart: a hash of config.json and of the names, sizes and headers' lengths of the
/// weight files; the folder may move. 0 when config.json cannot be read.
std::uint64_t fingerprint_of(const std::filesystem::path& folder,
                             const std::vector<store::ShardFile>& files);

/// The file of a model's history in a cache folder.
std::filesystem::path history_file(const std::filesystem::path& folder, std::uint64_t fingerprint);

/// What earlier runs saw. Empty if there is no such file. Fails with ErrorKind::model_files when it
/// is damaged, of another model, or of another version: it must not be used then, and is replaced
/// at the end of the run.
Result<weights::ExpertUse> load_history(const std::filesystem::path& file,
                                        std::uint64_t fingerprint, const weights::Blocks& blocks);

/// Replaces the file in one step; makes its folder. Fails with ErrorKind::drive.
Status save_history(const std::filesystem::path& file, std::uint64_t fingerprint,
                    const weights::ExpertUse& use);

}  // namespace sluice::engine
