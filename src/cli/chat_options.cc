#include "cli/chat_options.h"

#include <unistd.h>

#include <utility>

#include "cli/flags.h"

namespace sluice::cli {
namespace {

Result<std::string> parse_effort(const std::string& text) {
  for (const char* known : {"low", "medium", "high", "max"}) {
    if (text == known) return text;
  }
  return fail(ErrorKind::usage, "expected low, medium, high or max, found \"{}\"",
              text.substr(0, 40));
}

}  // namespace

void add_chat_options(CLI::App& app, ChatStyle& style) {
  const std::string group = "Chat";
  app.add_option("--system", style.system, "The system message; default: none")
      ->type_name("TEXT")
      ->group(group);
  CLI::Option* effort = add_parsed(
      app, "--effort", "HOW",
      "How much to think: low, high or max (default); gpt-oss: low, medium (default) or high",
      parse_effort, [&style](std::string how) { style.effort = std::move(how); });
  effort->group(group);
  app.add_flag_callback(
         "--no-thinking", [&style] { style.thinking = false; }, "Answer without thinking first")
      ->excludes(effort)
      ->group(group);
}

AnswerView::AnswerView(Output& response, ProgressLine& progress, bool show_reasoning)
    : response_(response),
      progress_(progress),
      reasoning_(STDERR_FILENO, "stderr"),
      show_reasoning_(show_reasoning) {}

void AnswerView::show(Channel channel, const std::string& text) {
  has_reasoning_ = has_reasoning_ || channel == Channel::reasoning;
  if (channel == Channel::reasoning && !show_reasoning_) return;
  progress_.erase();
  if (channel == Channel::response) {
    end_reasoning();
    wrote_response_ = true;
    write_response(text);
    return;
  }
  if (!in_reasoning_ && reasoning_.is_terminal()) {
    static_cast<void>(reasoning_.write("\033[2m"));  // stderr that fails has nobody to tell
  }
  in_reasoning_ = true;
  static_cast<void>(reasoning_.write(text));
}

void AnswerView::finish(bool always_newline) {
  progress_.erase();
  end_reasoning();
  if (always_newline || (wrote_response_ && response_.is_terminal())) write_response("\n");
}

void AnswerView::end_reasoning() {
  if (!in_reasoning_) return;
  static_cast<void>(reasoning_.write(reasoning_.is_terminal() ? "\033[0m\n" : "\n"));
  in_reasoning_ = false;
}

void AnswerView::write_response(const std::string& text) {
  if (status_) status_ = response_.write(text);
}

}  // namespace sluice::cli
