// Llama and the families that differ from it in a detail: mistral, qwen2, qwen3, mixtral,
// qwen3_moe.
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
Result<std::unique_ptr<Architecture>> open_llama(const std::string& config,
                                                 const store::Checkpoint& checkpoint,
                                                 std::span<const io::FileId> files);

/// Opens a GGUF checkpoint, which has its hyperparameters inside.
Result<std::unique_ptr<Architecture>> open_llama_gguf(const store::Checkpoint& checkpoint,
                                                      std::span<const io::FileId> files);

/// From a config.json alone, every tensor in bfloat16: for plans.
Result<std::unique_ptr<Architecture>> imagine_llama(const std::string& config,
                                                    const std::filesystem::path& place);

}  // namespace sluice::model
