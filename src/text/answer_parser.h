// What a model writes, taken apart: reasoning, answer, tool calls (SPEC 10).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace sluice::text {

/// A step of an answer. All texts are valid UTF-8.
struct AnswerEvent {
  enum class Kind {
    reasoning,       ///< `text` goes on with the reasoning
    answer,          ///< `text` goes on with the answer
    call_begin,      ///< call number `call` (0, 1, ...) begins; `text` is the tool's name
    call_arguments,  ///< `text` goes on with the call's arguments; joined they are one JSON object
                     ///< (but for what the model itself wrote as raw JSON: that is passed as it is)
    call_end,        ///< the call is whole
    end,             ///< the answer is over by the model's own word; nothing follows
  };
  Kind kind;
  std::string text = {};
  std::size_t call = 0;
};

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
  AnswerParser(const Tokenizer& tokenizer, ChatFormat format, bool thinking);

  /// What one more id brings: often one event, sometimes none or several.
  std::vector<AnswerEvent> push(std::int32_t id);
  /// At the end of the ids, if the model did not end the answer: what is held back. A call that is
  /// not whole gets no call_end. `cut`: there would have been more ids, so that a header which is
  /// not whole is no text, but dropped.
  std::vector<AnswerEvent> finish(bool cut = false);

  /// Where text of the next token would go, if it is text.
  bool in_reasoning() const { return place_ == Place::reasoning && header_ == Header::none; }
  bool in_answer() const { return place_ == Place::answer && header_ == Header::none; }

  /// True after Kind::end: the rest of the ids is not looked at.
  bool ended() const { return ended_; }

 private:
  /// Where text belongs to.
  enum class Place { between, reasoning, answer, tools, call, argument, raw };
  /// The header whose text is being collected, if any.
  enum class Header { none, open, close, k2_call };
  struct Markers {
    std::int32_t open, close, sep;                                               // K3
    std::int32_t think_begin, think_end;                                         // all others
    std::int32_t tools_begin, call_begin, arguments_begin, call_end, tools_end;  // K2
    std::int32_t end, eos;
  };

  void on_marker(std::int32_t id);
  void on_k2_marker(std::int32_t id);
  void on_think_marker(bool begins);
  void finish_header(bool whole);
  void open_section(std::string_view header, bool whole);
  void close_section(std::string_view tag);
  void open_call(std::string name);
  void open_argument(std::string_view key, std::string_view type);
  void open_raw();
  void close_argument();
  void close_call();
  void go_to(Place place);
  void flush();
  void on_text(std::string_view text);
  void emit(AnswerEvent::Kind kind, std::string text = {});
  void begin_member(std::string_view key);
  void end_answer();

  const Tokenizer* tokenizer_;
  Markers markers_{};
  bool begins_;  // the space that the tokenizer puts before a text is still to come
  Place place_;
  Header header_ = Header::none;
  std::string header_bytes_;
  Utf8Stream stream_;  // of the text at place_
  std::string blank_;  // white space between sections, which counts only if text follows it
  std::vector<AnswerEvent> events_;
  bool ended_ = false;

  // The call in hand.
  std::size_t calls_ = 0;  // begun so far
  bool in_call_ = false;
  std::size_t members_ = 0;  // argument nodes so far
  bool raw_ = false;         // its arguments come as one raw text
  bool raw_empty_ = false;   // of which nothing came yet
  bool string_argument_ = false;
  std::string argument_;  // text of an argument that is not a string, or of a bare call
};

/// A whole answer.
struct Answer {
  struct Call {
    std::string name;
    std::string arguments;
    bool whole = false;
  };
  std::string reasoning;
  std::string text;
  std::vector<Call> calls;
  bool ended = false;  ///< by the model's own word
};
/// Adds an event to an answer.
void append(Answer& answer, const AnswerEvent& event);
/// All ids through one AnswerParser.
Answer parse_answer(const Tokenizer& tokenizer, ChatFormat format, bool thinking,
                    std::span<const std::int32_t> ids);

}  // namespace sluice::text
