// The flags of conversations, and how their parts are shown.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "cli/answer_text.h"
#include "cli/conversation.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace sluice::cli {

/// What else may be done if the thinking took all the room.
inline constexpr std::string_view kNoThinking = ", or answer at once with --no-thinking";

void add_chat_options(CLI::App& app, ChatStyle& style);

/// Shows an answer as it comes: the response on stdout, what the model thinks on stderr (dim on a
/// terminal).
class AnswerView {
 public:
  /// With `show_reasoning` false, reasoning is dropped.
  AnswerView(Output& response, ProgressLine& progress, bool show_reasoning);

  void show(Channel channel, const std::string& text);
  /// Ends the lines that are begun. `always_newline`: also on a response that is no terminal.
  void finish(bool always_newline);

  /// The first error of writing the response.
  const Status& status() const { return status_; }
  bool has_response() const { return wrote_response_; }
  bool has_reasoning() const { return has_reasoning_; }
  /// Nobody wants more.
  bool is_over() const { return !status_ || response_.is_closed(); }

 private:
  void end_reasoning();
  void write_response(const std::string& text);

  Output& response_;
  ProgressLine& progress_;
  Output reasoning_;
  const bool show_reasoning_;
  bool in_reasoning_ = false;
  bool wrote_response_ = false;
  bool has_reasoning_ = false;  // shown or not
  Status status_;
};

}  // namespace sluice::cli
