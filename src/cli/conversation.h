// A conversation as the token ids that the model sees.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/answer_parser.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace sluice::cli {

/// What is said before the first question.
struct ChatStyle {
  std::string system;          ///< the system message; empty: none
  bool thinking = true;        ///< the model thinks before it answers
  std::string effort = "max";  ///< how much, as in text::ChatRequest
};

/// Grows turn by turn; nothing that the model wrote is encoded a second time, so what a sequence
/// has already been fed stays valid.
class Conversation {
 public:
  /// Fails with ErrorKind::usage if the tokenizer has no known chat format, or it cannot say the
  /// style. The tokenizer must outlive the conversation.
  static Result<Conversation> create(const text::Tokenizer& tokenizer, ChatStyle style);

  /// Adds the user's turn and the beginning of the answer.
  Status ask(std::string question);
  /// Takes back the last ask(), if it was not answered.
  void withdraw();
  /// Adds the answer's ids, and what is missing for a complete turn: the answer may have ended
  /// anywhere.
  Status answer(std::span<const std::int32_t> ids);

  /// Changes the effort from the start on. What a sequence was fed before is no longer the
  /// beginning of ids().
  Status set_effort(const std::string& effort);
  /// Forgets all turns.
  void clear();

  const ChatStyle& style() const { return style_; }
  std::size_t turns() const { return turns_; }
  /// All that the model has to have seen before the next token.
  std::vector<std::int32_t> ids() const;

  /// A parser for the next answer.
  text::AnswerParser parser() const { return {*tokenizer_, format_, is_thinking()}; }
  /// Whether the next answer begins inside the reasoning.
  bool is_thinking() const { return format_.opens_reasoning(*tokenizer_, ids()); }
  const text::ChatFormat& format() const { return format_; }

 private:
  /// How far K3's format takes an answer.
  enum class Stage : std::uint8_t { thinking, thought, responding, responded, closed };

  Conversation(const text::Tokenizer& tokenizer, text::ChatFormat format, ChatStyle style);
  Status ask_by_template(std::string question);
  std::string text_for_template(std::span<const std::int32_t> ids) const;
  Result<std::vector<std::int32_t>> preface(const ChatStyle& style) const;
  Stage stage_after(std::span<const std::int32_t> ids) const;
  Result<std::vector<std::int32_t>> closing(Stage stage) const;

  const text::Tokenizer* tokenizer_;
  text::ChatFormat format_;
  ChatStyle style_;
  std::vector<text::ChatTurn> history_;  // templates: all turns, which the template wants each time
  std::vector<std::int32_t> preface_;
  std::vector<std::int32_t> turns_ids_;
  std::size_t answered_ = 0;  // of turns_ids_: complete turns
  std::size_t turns_ = 0;
};

}  // namespace sluice::cli
