// How the tokenizers that are known by name cut text into pieces.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/split.h"

namespace sluice::text {

struct PreTokenizer {
  std::vector<Cut> cuts;      ///< for Splitter::create()
  bool kimi = false;          ///< cut by Kimi's expression instead
  bool whole_pieces = false;  ///< a piece that is a token is this token
};

/// GPT-2's expression, which is also what a ByteLevel pre-tokenizer of tokenizer.json cuts by.
extern const std::string_view kGpt2Expression;

/// By the name that GGUF files have in tokenizer.ggml.pre. ErrorKind::model_files if it is unknown;
/// `file` is for the message.
Result<PreTokenizer> pre_tokenizer_named(std::string_view name, std::string_view file);

}  // namespace sluice::text
