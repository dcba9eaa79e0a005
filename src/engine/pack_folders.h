// The folders of a pack: what may be in them, and the small files of a model.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/pack_journal.h"
#include "store/pack_index.h"

namespace sluice::engine {

/// Makes the folders if they are missing, and gives their absolute paths. ErrorKind::usage when one
/// is given twice, lies in the model's folder, or is no folder; io::kind_of_refused_place() when
/// one cannot be made.
Result<std::vector<std::filesystem::path>> make_pack_folders(
    const std::vector<std::filesystem::path>& folders, const std::filesystem::path& model_folder);

/// ErrorKind::usage when one of them holds anything.
Status expect_empty(const std::vector<std::filesystem::path>& folders);

/// The journal of the pack that was begun in the folder; nothing when none was.
Result<std::optional<PackJournal>> read_journal(const std::filesystem::path& folder);

/// The index of the pack that is finished in the folder, if one is.
Result<std::optional<store::PackIndex>> read_finished(const std::filesystem::path& folder);

/// What lies beside the weights in a model's folder: config.json, tokenizer, templates, licences.
Result<std::vector<store::PackCompanion>> find_companions(const std::filesystem::path& folder);

/// Copies them.
Status copy_companions(const std::vector<store::PackCompanion>& companions,
                       const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace sluice::engine
