// Gemma 3, the text model (arXiv 2503.19786).
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "io/reader.h"
#include "model/network.h"
#include "store/checkpoint.h"

namespace sluice::model {

/// Opens a checkpoint with a config.json. `config`: its text.
Result<std::unique_ptr<Architecture>> open_gemma3(const std::string& config,
                                                  const store::Checkpoint& checkpoint,
                                                  std::span<const io::FileId> files);

/// Opens a GGUF checkpoint, which has its hyperparameters inside.
Result<std::unique_ptr<Architecture>> open_gemma3_gguf(const store::Checkpoint& checkpoint,
                                                       std::span<const io::FileId> files);

/// From a config.json alone, every tensor in bfloat16: for plans.
Result<std::unique_ptr<Architecture>> imagine_gemma3(const std::string& config,
                                                     const std::filesystem::path& place);

}  // namespace sluice::model
