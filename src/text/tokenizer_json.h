// Hugging Face's tokenizer.json, as far as it says "BPE": of bytes, or of characters as
// SentencePiece has it.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "text/chat_files.h"
#include "text/tokenizer.h"

namespace sluice::text {

/// Reads tokenizer.json in `folder`, and the chat template of tokenizer_config.json or
/// chat_template.jinja beside it. ErrorKind::model_files, naming the part, for whatever is wrong or
/// not supported: another model than BPE (WordPiece, Unigram), or a step that
/// read_tokenizer_steps() does not know.
Result<Tokenizer> load_tokenizer_json(const std::filesystem::path& folder);

/// The same from the text; the name is for messages. `chat` goes to the tokenizer.
Result<Tokenizer> parse_tokenizer_json(std::string_view text, ChatFiles chat,
                                       std::string_view name = "tokenizer.json");

}  // namespace sluice::text
