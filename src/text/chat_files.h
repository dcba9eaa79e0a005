// What files beside a tokenizer say about conversations.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace sluice::text {

/// Empty where the files say nothing.
struct ChatFiles {
  std::string chat_template;
  std::string begin, end;  ///< spellings of the tokens that begin and end a text
};

/// Reads tokenizer_config.json in `folder`, and chat_template.jinja, whose template is the one that
/// counts where there are two. Fails with ErrorKind::model_files if that is there and cannot be
/// read: another template would be another prompt.
Result<ChatFiles> read_chat_files(const std::filesystem::path& folder);

}  // namespace sluice::text
