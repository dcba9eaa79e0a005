// The tokenizer of a run, if it needs one, and the ids that end an answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/result.h"
#include "cli/compute_options.h"
#include "cli/prompt.h"
#include "model/network.h"
#include "text/stop_ids.h"
#include "text/tokenizer.h"

namespace sluice::cli {

/// The tokenizer of MODEL. Fails with ErrorKind::model_files; where the weights are at fault too,
/// it is these that the message names: a folder without a tokenizer is mostly one without a model.
Result<text::Tokenizer> load_tokenizer(const std::filesystem::path& model);

/// The ids that end an answer: the tokenizer's and generation_config.json's, and the model's own.
/// Without a tokenizer only the latter.
Result<std::vector<std::int32_t>> end_ids(const text::Tokenizer* tokenizer,
                                          const std::filesystem::path& folder,
                                          const model::Shape& shape);

/// The ids of a prompt as it stands: those given, or those of its text, begun as the model wants
/// it.
Result<std::vector<std::int32_t>> prompt_ids(const PromptOptions& prompt,
                                             const std::filesystem::path& model,
                                             const SizeCheck& check);

/// Refuses a text that is too long for memory by its size alone: no token is longer than the
/// vocabulary's longest. `options` must outlive it.
SizeCheck memory_check(const ComputeOptions& options);
/// The same for one that has to fit into the context, too.
SizeCheck size_check(const ComputeOptions& options);

}  // namespace sluice::cli
