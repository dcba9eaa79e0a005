// An answer with everything in it, for tests of what becomes of it.
#pragma once

#include <string>
#include <vector>

#include "server/answer_machine.h"

namespace sluice::server {

using Ids = std::vector<std::int32_t>;
inline const text::Tokenizer& tokenizer() {
  static const text::Tokenizer* const one =
      new text::Tokenizer(*text::Tokenizer::load(SLUICE_SOURCE_DIR "/models/k3-nano"));
  return *one;
}

inline Ids encode(const std::string& text) {
  return *tokenizer().encode(text, text::Tokenizer::Special::as_control);
}

inline const std::string kAnswer =
    "First, w\u00e4gen \U0001F642.<|close|>think<|sep|><|open|>response<|sep|>Gr\u00fc\u00dfe END "
    "of all"
    "<|close|>response<|sep|><|open|>tools<|sep|>"
    "<|open|>call tool=\"get\" index=\"1\"<|sep|>"
    "<|open|>argument key=\"city\" type=\"string\"<|sep|>M\u00fcnchen \"x\"<|close|>argument<|sep|>"
    "<|open|>argument key=\"days\" type=\"number\"<|sep|>3<|close|>argument<|sep|>"
    "<|close|>call<|sep|>"
    "<|open|>call tool=\"put\" index=\"2\"<|sep|><|close|>call<|sep|>"
    "<|close|>tools<|sep|><|close|>message<|sep|>";

inline AnswerForm form_with(std::vector<std::string> stops = {}) {
  AnswerForm form;
  form.chat = *text::ChatFormat::detect(tokenizer());
  form.thinking = true;
  form.tools = true;
  form.call_ids = "call_";
  form.stops = std::move(stops);
  return form;
}

}  // namespace sluice::server
