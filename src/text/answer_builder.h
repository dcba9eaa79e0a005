// An answer as it is put together: where text belongs to, and the call in hand.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/answer_event.h"
#include "text/utf8.h"

namespace sluice::text {

/// Knows no format: readers of formats say what begins and ends, and hand on the text.
class AnswerBuilder {
 public:
  /// Where text belongs to.
  enum class Place { between, reasoning, answer, tools, call, argument, raw };

  /// `strips_first_space`: the tokenizer puts a space before a text.
  AnswerBuilder(Place place, bool strips_first_space)
      : begins_(strips_first_space), place_(place) {}

  Place place() const { return place_; }
  bool in_call() const { return in_call_; }
  bool ended() const { return ended_; }
  /// The events since the last take().
  std::vector<AnswerEvent> take() { return std::exchange(events_, {}); }

  /// The bytes of a token, which may end inside a character.
  void on_bytes(std::string_view bytes);
  void on_text(std::string_view text);
  /// What follows belongs there.
  void go_to(Place place);
  /// Ends the text at this place: a character that is not finished never will be.
  void flush();

  /// Each of these ends what it cannot be inside of.
  void open_call(std::string name);
  void open_argument(std::string_view key, std::string_view type);
  /// The text is the call's arguments as they are.
  void open_raw();
  void close_argument();
  void close_call();
  void end_answer();

 private:
  void emit(AnswerEvent::Kind kind, std::string text = {});
  void begin_member(std::string_view key);

  bool begins_;  // the space that the tokenizer puts before a text is still to come
  Place place_;
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

/// The bytes as text, each invalid sequence replaced.
std::string whole_utf8(std::string_view bytes);
/// Without the white space around it.
std::string_view trimmed(std::string_view text);

}  // namespace sluice::text
