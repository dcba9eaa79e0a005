// DeepSeek V3 and the models made like it: Kimi K2, Moonlight.
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
Result<std::unique_ptr<Architecture>> open_deepseek(const std::string& config,
                                                    const store::Checkpoint& checkpoint,
                                                    std::span<const io::FileId> files);

/// The same of a GGUF file, whose metadata is the configuration.
Result<std::unique_ptr<Architecture>> open_deepseek_gguf(const store::Checkpoint& checkpoint,
                                                         std::span<const io::FileId> files);

/// From a config.json alone, as the releases store what it tells: for plans.
Result<std::unique_ptr<Architecture>> imagine_deepseek(const std::string& config,
                                                       const std::filesystem::path& place);

}  // namespace sluice::model
