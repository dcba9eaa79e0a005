// Token ids that end an answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace sluice::text {

/// The ids that end an answer, ascending: `[EOS]`, `<|end_of_msg|>`, `<|im_end|>`, `<end_of_turn>`,
/// `<|eot_id|>`, `<|return|>` and `<|call|>`, as far as the tokenizer has tokens of these names,
/// and what `eos_token_id` (a number or a list of them) in generation_config.json of `folder` adds.
/// The file may be missing, and so may the folder (empty). Fails with ErrorKind::model_files if it
/// is there and wrong.
Result<std::vector<std::int32_t>> stop_ids(const Tokenizer& tokenizer,
                                           const std::filesystem::path& folder);

}  // namespace sluice::text
