// What tokenizer.json says is done to a text before and after the vocabulary.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/normalizer.h"
#include "text/split.h"

namespace sluice::text {

struct TokenizerSteps {
  Normalizer normalizer;
  std::vector<Cut> cuts;
  bool byte_level = false;          ///< the vocabulary is written in the byte-level alphabet
  bool strips_first_space = false;  ///< the decoder does
};

/// The normalizer, the pre-tokenizer and the decoder of a tokenizer.json. ErrorKind::model_files,
/// naming the part and its type, for one that is not supported.
Result<TokenizerSteps> read_tokenizer_steps(const nlohmann::json& root, std::string_view file);

/// The spellings of the tokens that the post-processor puts before a text.
std::vector<std::string> read_prefix(const nlohmann::json& root);

}  // namespace sluice::text
