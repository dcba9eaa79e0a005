#include "cli/answer_text.h"

#include <utility>

namespace sluice::cli {

Result<AnswerText> AnswerText::create(const text::Tokenizer& tokenizer,
                                      std::optional<text::AnswerParser> parser,
                                      const std::vector<std::string>& stops, Sink sink) {
  auto matcher = text::StopMatcher::create(stops);
  if (!matcher) return fail(ErrorKind::usage, "--stop: {}", matcher.error().message);
  return AnswerText(tokenizer, std::move(parser), std::move(*matcher), std::move(sink));
}

AnswerText::AnswerText(const text::Tokenizer& tokenizer, std::optional<text::AnswerParser> parser,
                       text::StopMatcher stops, Sink sink)
    : characters_(tokenizer),
      parser_(std::move(parser)),
      stops_(std::move(stops)),
      sink_(std::move(sink)) {}

bool AnswerText::push(std::int32_t id) {
  if (!parser_) return respond(characters_.push(id));
  return take(parser_->push(id)) && !parser_->ended();
}

void AnswerText::finish(bool cut) {
  if (parser_) {
    take(parser_->finish(cut));
  } else {
    respond(characters_.finish());
  }
  const std::string rest = stops_.finish();
  if (!rest.empty()) sink_(Channel::response, rest);
}

bool AnswerText::take(const std::vector<text::AnswerEvent>& events) {
  using Kind = text::AnswerEvent::Kind;
  bool goes_on = true;
  for (const text::AnswerEvent& event : events) {
    switch (event.kind) {
      case Kind::reasoning:
        if (!event.text.empty()) sink_(Channel::reasoning, event.text);
        break;
      case Kind::answer:
      case Kind::call_arguments:  // of a tool that nobody offered: shown as it is
        goes_on = respond(event.text) && goes_on;
        break;
      case Kind::call_begin:
        goes_on = respond("\n" + event.text + " ") && goes_on;
        break;
      case Kind::call_end:
        goes_on = respond("\n") && goes_on;
        break;
      case Kind::end:
        break;
    }
  }
  return goes_on;
}

bool AnswerText::respond(std::string_view text) {
  const text::StopMatcher::Piece piece = stops_.push(text);
  if (!piece.text.empty()) sink_(Channel::response, piece.text);
  return !piece.stopped;
}

}  // namespace sluice::cli
