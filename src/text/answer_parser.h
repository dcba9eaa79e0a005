// What a model writes, taken apart: reasoning, answer, tool calls (SPEC 10).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "text/answer_event.h"
#include "text/answer_reader.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace sluice::text {

/// Follows an answer token by token. Markers are single ids, so a marker spelled out in text is
/// text. (A tokenizer without a token for <think> has no reasoning here.) One machine serves
/// streaming and whole answers (parse_answer).
///
/// What is malformed degrades and is never lost: a marker of another section ends an unclosed one;
/// text outside of all sections is answer; a header that is none becomes text; an argument that is
/// not the JSON it claims to be becomes a string; a call without argument nodes has its text as
/// raw arguments. Special tokens without a meaning in the format have no text.
class AnswerParser {
 public:
  /// `thinking`: whether the prompt ended inside the reasoning (ChatFormat::opens_reasoning()).
  /// The tokenizer must outlive the parser.
  AnswerParser(const Tokenizer& tokenizer, const ChatFormat& format, bool thinking);

  /// What one more id brings: often one event, sometimes none or several.
  std::vector<AnswerEvent> push(std::int32_t id);
  /// At the end of the ids, if the model did not end the answer: what is held back. A call that is
  /// not whole gets no call_end; one of gpt-oss is whole unless `cut`, for the token that ends it
  /// ends the ids, and is none of them. `cut`: there would have been more ids, so that a header
  /// which is not whole is no text, but dropped.
  std::vector<AnswerEvent> finish(bool cut = false);

  /// Where text of the next token would go, if it is text.
  bool in_reasoning() const { return is_at(AnswerBuilder::Place::reasoning); }
  bool in_answer() const { return is_at(AnswerBuilder::Place::answer); }

  /// True after Kind::end: the rest of the ids is not looked at.
  bool ended() const { return reader_->answer().ended(); }

 private:
  bool is_at(AnswerBuilder::Place place) const {
    return reader_->answer().place() == place && !reader_->in_header();
  }

  std::unique_ptr<AnswerReader> reader_;
};

/// All ids through one AnswerParser.
Answer parse_answer(const Tokenizer& tokenizer, const ChatFormat& format, bool thinking,
                    std::span<const std::int32_t> ids);

}  // namespace sluice::text
