// Hugging Face's tokenizer.json, as far as it says "BPE": of bytes, or of characters as
// SentencePiece has it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"

namespace sluice::text {

/// Reads tokenizer.json in `folder`, and the chat template of tokenizer_config.json or
/// chat_template.jinja beside it. ErrorKind::model_files, naming the part, for whatever is wrong or
/// not supported: another model than BPE (WordPiece, Unigram), or a step that
/// read_tokenizer_steps() does not know.
Result<Tokenizer> load_tokenizer_json(const std::filesystem::path& folder);

/// What files beside tokenizer.json say about conversations; empty where they do not.
struct ChatFiles {
  std::string chat_template;
  std::string begin, end;  ///< spellings of the tokens that begin and end a text
};
ChatFiles read_chat_files(const std::filesystem::path& folder);

/// The same from the text; the name is for messages. `chat` goes to the tokenizer.
Result<Tokenizer> parse_tokenizer_json(std::string_view text, ChatFiles chat,
                                       std::string_view name = "tokenizer.json");

}  // namespace sluice::text
