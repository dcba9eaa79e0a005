// From token ids to what a client sees: text, reasoning, calls of tools, and why it ended. One
// machine feeds streamed and whole answers, so they are equal by construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/generate.h"
#include "text/answer_parser.h"
#include "text/chat.h"
#include "text/detokenizer.h"
#include "text/log_probabilities.h"
#include "text/stop.h"
#include "text/tokenizer.h"

namespace sluice::server {

/// How ids are to be read.
struct AnswerForm {
  std::optional<text::ChatFormat> chat;  ///< none: all ids are text
  bool thinking = false;                 ///< the prompt ended inside the reasoning
  bool tools = false;                    ///< tools were offered; a call without any is text
  bool one_call = false;                 ///< the answer ends with its first call
  std::vector<std::string> stops;        ///< end the text before them
  std::string call_ids;                  ///< a call's id is this and its number
};

/// A step of an answer.
struct AnswerStep {
  enum class Kind : std::uint8_t {
    reasoning,       ///< `text` goes on with the reasoning
    text,            ///< `text` goes on with the text
    call_begin,      ///< call number `call` begins: `text` is the tool's name
    call_arguments,  ///< `text` goes on with the call's arguments
    call_end,        ///< the call is whole
  };
  Kind kind = Kind::text;
  std::string text = {};
  std::size_t call = 0;
  std::string call_id = {};  ///< of call_begin
  /// Of the tokens of the text, where asked for.
  std::vector<text::TokenLogProbability> log_probabilities = {};
};

enum class Finish : std::uint8_t { stop, length, tool_calls };

class AnswerMachine {
 public:
  /// Fails with ErrorKind::usage if a stop string is none. The tokenizer must outlive the machine.
  static Result<AnswerMachine> create(const text::Tokenizer& tokenizer, AnswerForm form);

  /// Takes the next id; false when the answer ends with it.
  bool push(std::int32_t id, std::optional<text::TokenLogProbability> log_probability = {});
  /// No more ids come, for this reason (`stopped` if push() was false).
  Finish finish(engine::FinishReason reason);

  /// The steps since the last take().
  std::vector<AnswerStep> take() { return std::exchange(steps_, {}); }

  std::size_t reasoning_tokens() const { return reasoning_tokens_; }
  /// The stop string before which the answer ended; empty if it ended otherwise.
  const std::string& stopped_by() const { return matcher_.stopped_by(); }

 private:
  AnswerMachine(const text::Tokenizer& tokenizer, AnswerForm form, text::StopMatcher matcher);
  void on_event(const text::AnswerEvent& event);
  void on_text(std::string_view text);
  void on_call(const text::AnswerEvent& event);
  void end_answer();
  void end_text();
  void emit(std::string text);
  void release_log_probabilities(bool all);

  const text::Tokenizer* tokenizer_;
  AnswerForm form_;
  text::StopMatcher matcher_;
  std::optional<text::AnswerParser> parser_;
  text::Detokenizer characters_;
  std::vector<AnswerStep> steps_;
  bool over_ = false;
  std::size_t calls_ = 0;
  std::size_t reasoning_tokens_ = 0;

  struct Pending {
    std::size_t start;  // bytes of text that came before the token
    text::TokenLogProbability log_probability;
  };
  std::vector<Pending> pending_;  // of tokens whose text the matcher holds back
  std::size_t read_ = 0;          // bytes of text so far
  std::size_t emitted_ = 0;       // of it, handed on
};

}  // namespace sluice::server
