// The steps of an answer, and what they add up to.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

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

}  // namespace sluice::text
