#include "text/answer_builder.h"

#include <utility>

#include "text/json.h"

namespace sluice::text {
namespace {

std::string json_string(std::string_view text) {
  std::string json = "\"";
  append_json_escaped(text, json);
  return json + '"';
}

}  // namespace

std::string whole_utf8(std::string_view bytes) {
  Utf8Stream stream;
  std::string text = stream.push(bytes);
  return text + stream.finish();
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

void AnswerBuilder::on_bytes(std::string_view bytes) {
  std::string text = stream_.push(bytes);
  if (begins_ && !text.empty()) {
    begins_ = false;
    if (text.front() == ' ') text.erase(0, 1);
  }
  on_text(text);
}

void AnswerBuilder::open_call(std::string name) {
  close_call();
  go_to(Place::call);
  in_call_ = true;
  members_ = 0;
  raw_ = false;
  argument_.clear();
  events_.push_back({AnswerEvent::Kind::call_begin, std::move(name), calls_++});
}

// Begins a member of the arguments' object.
void AnswerBuilder::begin_member(std::string_view key) {
  emit(AnswerEvent::Kind::call_arguments, (members_++ == 0 ? "{" : ", ") + json_string(key) + ": ");
}

void AnswerBuilder::open_argument(std::string_view key, std::string_view type) {
  close_argument();
  go_to(Place::argument);
  argument_.clear();
  if (raw_) return;  // the arguments are there already; this one is dropped
  string_argument_ = type == "string";
  begin_member(key);
  if (string_argument_) emit(AnswerEvent::Kind::call_arguments, "\"");
}

void AnswerBuilder::open_raw() {
  close_argument();
  if (members_ > 0 || raw_) return open_argument("json", "object");
  go_to(Place::raw);
  raw_ = true;
  raw_empty_ = true;
}

void AnswerBuilder::close_argument() {
  flush();
  if (place_ == Place::argument && !raw_) {
    if (string_argument_) {
      emit(AnswerEvent::Kind::call_arguments, "\"");
    } else {
      const std::string_view json = trimmed(argument_);
      emit(AnswerEvent::Kind::call_arguments,
           is_json(json) ? std::string(json) : json_string(argument_));
    }
  }
  if (in_call_) {
    place_ = Place::call;
    argument_.clear();
  }
}

void AnswerBuilder::close_call() {
  if (!in_call_) return;
  flush();
  const std::string bare = place_ == Place::call ? std::string(trimmed(argument_)) : std::string();
  close_argument();
  if (members_ > 0) {
    emit(AnswerEvent::Kind::call_arguments, "}");
  } else if (!raw_ || raw_empty_) {
    emit(AnswerEvent::Kind::call_arguments, bare.empty() ? "{}" : bare);
  }
  emit(AnswerEvent::Kind::call_end);
  in_call_ = false;
  place_ = Place::tools;
}

void AnswerBuilder::go_to(Place place) {
  flush();
  place_ = place;
}

void AnswerBuilder::flush() {
  on_text(stream_.finish());
  blank_.clear();
}

void AnswerBuilder::on_text(std::string_view text) {
  if (text.empty()) return;
  switch (place_) {
    case Place::reasoning:
      return emit(AnswerEvent::Kind::reasoning, std::string(text));
    case Place::answer:
      return emit(AnswerEvent::Kind::answer, std::string(text));
    case Place::raw:
      raw_empty_ = false;
      return emit(AnswerEvent::Kind::call_arguments, std::string(text));
    case Place::call:
      argument_ += text;
      return;
    case Place::tools:
      return;
    case Place::argument:
      break;
    case Place::between:
      blank_ += text;
      if (is_blank(blank_)) return;
      place_ = Place::answer;
      return emit(AnswerEvent::Kind::answer, std::exchange(blank_, {}));
  }
  if (raw_) return;
  if (!string_argument_) {
    argument_ += text;
    return;
  }
  std::string escaped;
  append_json_escaped(text, escaped);
  emit(AnswerEvent::Kind::call_arguments, std::move(escaped));
}

void AnswerBuilder::emit(AnswerEvent::Kind kind, std::string text) {
  const bool of_call =
      kind == AnswerEvent::Kind::call_arguments || kind == AnswerEvent::Kind::call_end;
  events_.push_back({kind, std::move(text), of_call ? calls_ - 1 : 0});
}

void AnswerBuilder::end_answer() {
  close_call();
  flush();
  emit(AnswerEvent::Kind::end);
  ended_ = true;
}

void append(Answer& answer, const AnswerEvent& event) {
  using Kind = AnswerEvent::Kind;
  switch (event.kind) {
    case Kind::reasoning:
      answer.reasoning += event.text;
      return;
    case Kind::answer:
      answer.text += event.text;
      return;
    case Kind::call_begin:
      answer.calls.push_back({event.text, {}, false});
      return;
    case Kind::call_arguments:
      answer.calls[event.call].arguments += event.text;
      return;
    case Kind::call_end:
      answer.calls[event.call].whole = true;
      return;
    case Kind::end:
      answer.ended = true;
      return;
  }
}

}  // namespace sluice::text
