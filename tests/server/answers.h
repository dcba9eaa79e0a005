// An answer with everything in it, for tests of what becomes of it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/answer_machine.h"
#include "text/json.h"
#include "text/small_file.h"

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

/// k3-nano's words with the markers of other formats.
inline const text::Tokenizer& other_tokenizer() {
  static const text::Tokenizer* const one = [] {
    constexpr std::size_t kWords = 3840;
    text::Json named = text::Json::object();
    for (const char* marker :
         {"[EOS]", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|im_system|>",
          "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|tool_calls_section_begin|>",
          "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
          "<|tool_calls_section_end|>"}) {
      named[std::to_string(kWords + named.size())] = {{"content", marker}};
    }
    const std::string ranks =
        *text::read_small_file(SLUICE_SOURCE_DIR "/models/k3-nano/tiktoken.model", 1 << 20);
    return new text::Tokenizer(
        *text::Tokenizer::parse(ranks, text::Json{{"added_tokens_decoder", named}}.dump()));
  }();
  return *one;
}

/// k3-nano's words with the markers of gpt-oss.
inline const text::Tokenizer& channel_tokenizer() {
  static const text::Tokenizer* const one = [] {
    constexpr std::size_t kWords = 3840;
    text::Json named = text::Json::object();
    for (const char* marker : {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>",
                               "<|end|>", "<|call|>", "<|return|>"}) {
      named[std::to_string(kWords + named.size())] = {{"content", marker}};
    }
    const std::string ranks =
        *text::read_small_file(SLUICE_SOURCE_DIR "/models/k3-nano/tiktoken.model", 1 << 20);
    return new text::Tokenizer(
        *text::Tokenizer::parse(ranks, text::Json{{"added_tokens_decoder", named}}.dump()));
  }();
  return *one;
}

/// kAnswer as gpt-oss writes it.
inline const std::string kChannelAnswer =
    "<|channel|>analysis<|message|>First, w\u00e4gen \U0001F642.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Gr\u00fc\u00dfe END of all<|end|>"
    "<|start|>assistant<|channel|>commentary to=functions.get <|constrain|>json<|message|>"
    "{\"city\": \"M\u00fcnchen \\\"x\\\"\", \"days\": 3}<|end|>"
    "<|start|>assistant to=functions.put<|channel|>commentary json<|message|>{}";

/// kAnswer as others write it, behind a <think> that the prompt or the model wrote.
inline const std::string kOtherAnswer =
    "First, w\u00e4gen \U0001F642.</think>Gr\u00fc\u00dfe END of all"
    "<|tool_calls_section_begin|>"
    "<|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>"
    "{\"city\": \"M\u00fcnchen \\\"x\\\"\", \"days\": 3}<|tool_call_end|>"
    "<|tool_call_begin|>functions.put:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
    "<|tool_calls_section_end|>";

/// The same answer in one of the formats.
struct FormCase {
  std::string name;
  const text::Tokenizer* tokenizer;
  AnswerForm form;
  std::string written;

  Ids encode(std::string_view part) const {
    return *tokenizer->encode(part, text::Tokenizer::Special::as_control);
  }
  Ids ids() const { return encode(written); }
};

inline std::vector<FormCase> all_forms(const std::vector<std::string>& stops = {}) {
  using Kind = text::ChatFormat::Kind;
  std::vector<FormCase> all = {{"K3", &tokenizer(), form_with(stops), kAnswer}};
  for (const auto& [name, kind] :
       {std::pair{"ChatML", Kind::chatml}, std::pair{"Jinja", Kind::jinja},
        std::pair{"K2", Kind::kimi_k2}}) {
    AnswerForm form = form_with(stops);
    form.chat = text::ChatFormat(kind);
    all.push_back(
        {std::string(name) + ", opened by the prompt", &other_tokenizer(), form, kOtherAnswer});
    form.thinking = false;
    all.push_back({std::string(name) + ", opened by the model", &other_tokenizer(), form,
                   "<think>" + kOtherAnswer});
  }
  AnswerForm form = form_with(stops);
  form.chat = text::ChatFormat(Kind::harmony);
  form.thinking = false;
  all.push_back({"channels", &channel_tokenizer(), form, kChannelAnswer});
  return all;
}

}  // namespace sluice::server
