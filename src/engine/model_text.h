// The tokenizer of a model, wherever the model keeps it.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "text/tokenizer.h"

namespace sluice::engine {

/// The tokenizer of the model at `model`: that inside its GGUF file; else tiktoken.model or
/// tokenizer.json in its folder. ErrorKind::model_files if there is none, or it is wrong.
Result<text::Tokenizer> load_tokenizer(const std::filesystem::path& model);

/// Whether the model has a tokenizer at all, good or not: without one it takes and gives only ids.
/// ErrorKind::model_files if that cannot be told.
Result<bool> has_tokenizer(const std::filesystem::path& model);

/// ErrorKind::model_files if the model has none, for those who cannot do without; where there are
/// no weights either, that is what the message says.
Status expect_tokenizer(const std::filesystem::path& model);

/// Whether a run finds what it needs beside the weights and the configuration: the tokenizer, and a
/// generation_config.json that is right if it is there. ErrorKind::model_files if not.
Status check_text(const std::filesystem::path& model);

/// The folder with generation_config.json and the like; empty for a GGUF model, which has all of it
/// inside. ErrorKind::model_files if there is no such model.
Result<std::filesystem::path> text_folder(const std::filesystem::path& model);

}  // namespace sluice::engine
