// gpt-oss: attention with sinks and windows, and experts in MXFP4 with biases.
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

/// Opens a checkpoint of the family. `config`: the text of config.json.
Result<std::unique_ptr<Architecture>> open_gpt_oss(const std::string& config,
                                                   const store::Checkpoint& checkpoint,
                                                   std::span<const io::FileId> files);

/// Opens a GGUF checkpoint, which has its hyperparameters inside.
Result<std::unique_ptr<Architecture>> open_gpt_oss_gguf(const store::Checkpoint& checkpoint,
                                                        std::span<const io::FileId> files);

/// From a config.json alone, as the releases store what it tells: for plans.
Result<std::unique_ptr<Architecture>> imagine_gpt_oss(const std::string& config,
                                                      const std::filesystem::path& place);

}  // namespace sluice::model
