// Conversations written by the model's own template.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "text/chat.h"
#include "text/jinja.h"

namespace sluice::text {

/// A template, and the tokens that it can write: what ChatFormat keeps of a model.
struct JinjaChat {
  jinja::Template chat_template;
  std::vector<std::string> specials;  ///< spellings, longest first
  std::string begin, end;             ///< bos_token and eos_token in the template; may be empty
  bool has_channels = false;          ///< those of gpt-oss are among the tokens
};

/// ErrorKind::model_files with the line of what the template has that is not understood.
Result<JinjaChat> make_jinja_chat(const Tokenizer& tokenizer);

/// ChatFormat::render() for Kind::jinja. Only what the template itself writes becomes control: a
/// marker that is spelled in a message, wholly or in part, stays text.
Result<std::vector<Segment>> render_jinja(const JinjaChat& chat, const ChatRequest& request);

}  // namespace sluice::text
