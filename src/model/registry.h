// Which architectures there are.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "model/network.h"
#include "store/checkpoint.h"

namespace sluice::model {

/// Chooses the architecture by config.json's model_type, or by a GGUF file's own word, and matches
/// it against the checkpoint. `files`: the reader's ids of checkpoint.files().
/// ErrorKind::model_files on anything that is missing, unknown or does not fit together.
Result<std::unique_ptr<Architecture>> open_architecture(const store::Checkpoint& checkpoint,
                                                        std::span<const io::FileId> files);

/// The architecture that a config.json describes, without a weight: every tensor is taken to be
/// there as the release stores it. For plans; ErrorKind::model_files as above.
Result<std::unique_ptr<Architecture>> imagine_architecture(const std::filesystem::path& config);

}  // namespace sluice::model
