#include "text/answer_parser.h"

#include <algorithm>
#include <utility>

#include "text/chat_k3.h"
#include "text/json.h"

namespace sluice::text {
namespace {

// A header of K3's: tag key="value" key="value". What does not fit that form is `rest`.
struct ParsedHeader {
  std::string_view tag;
  std::vector<std::pair<std::string_view, std::string>> attributes;
  std::string_view rest;

  std::string value(std::string_view key, std::string_view otherwise = {}) const {
    for (const auto& [name, text] : attributes) {
      if (name == key) return text;
    }
    return std::string(otherwise);
  }
};

// If `lenient`, values without quotes pass too.
ParsedHeader parse_header(std::string_view header, bool lenient) {
  ParsedHeader parsed;
  parsed.tag = header.substr(0, header.find_first_of(" \n"));
  std::string_view rest = header.substr(parsed.tag.size());
  while (rest.starts_with(' ')) {
    const std::size_t equals = rest.find('=');
    if (equals == std::string_view::npos || rest.find_first_of(" \"", 1) < equals) break;
    const bool quoted = rest.substr(equals + 1).starts_with('"');
    if (!quoted && !lenient) break;
    const std::size_t begin = equals + (quoted ? 2 : 1);
    const std::size_t end = rest.find(quoted ? '"' : ' ', begin);
    if (quoted && end == std::string_view::npos) break;
    const std::string_view value = rest.substr(begin, std::min(end, rest.size()) - begin);
    parsed.attributes.emplace_back(rest.substr(1, equals - 1), unescape_attribute(value));
    rest.remove_prefix(std::min(begin + value.size() + (quoted ? 1 : 0), rest.size()));
  }
  parsed.rest = rest;
  return parsed;
}

bool is_section(std::string_view tag) {
  for (const char* known : {"think", "response", "tools", "call", "argument", "json", "message"}) {
    if (tag == known) return true;
  }
  return false;
}

std::string whole_utf8(std::string_view bytes) {
  Utf8Stream stream;
  std::string text = stream.push(bytes);
  return text + stream.finish();
}

// Of "functions.NAME:0", K2's way to name a call, the NAME.
std::string k2_tool_name(std::string_view header) {
  while (!header.empty() && is_blank(header.substr(0, 1))) header.remove_prefix(1);
  while (!header.empty() && is_blank(header.substr(header.size() - 1))) header.remove_suffix(1);
  if (header.starts_with("functions.")) header.remove_prefix(10);
  const std::size_t colon = header.rfind(':');
  if (colon != std::string_view::npos &&
      header.find_first_not_of("0123456789", colon + 1) == std::string_view::npos) {
    header = header.substr(0, colon);
  }
  return std::string(header);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string json_string(std::string_view text) {
  std::string json = "\"";
  append_json_escaped(text, json);
  return json + '"';
}

}  // namespace

AnswerParser::AnswerParser(const Tokenizer& tokenizer, ChatFormat format, bool thinking)
    : tokenizer_(&tokenizer),
      begins_(tokenizer.strips_first_space()),
      place_(thinking ? Place::reasoning : Place::answer) {
  const auto id = [&](std::string_view name) { return tokenizer.special_id(name).value_or(-1); };
  markers_ = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, id("[EOS]")};
  if (format.kind() == ChatFormat::Kind::kimi_k3) {
    markers_.open = id("<|open|>");
    markers_.close = id("<|close|>");
    markers_.sep = id("<|sep|>");
    markers_.end = id("<|end_of_msg|>");
  } else {
    markers_.think_begin = id("<think>");
    markers_.think_end = id("</think>");
    markers_.tools_begin = id("<|tool_calls_section_begin|>");
    markers_.call_begin = id("<|tool_call_begin|>");
    markers_.arguments_begin = id("<|tool_call_argument_begin|>");
    markers_.call_end = id("<|tool_call_end|>");
    markers_.tools_end = id("<|tool_calls_section_end|>");
    markers_.end = id("<|im_end|>");
  }
}

std::vector<AnswerEvent> AnswerParser::push(std::int32_t id) {
  if (ended_) return {};
  if (tokenizer_->is_special(id) || id == markers_.think_begin || id == markers_.think_end) {
    on_marker(id);
  } else if (header_ != Header::none) {
    header_bytes_ += tokenizer_->bytes_of(id);
  } else {
    std::string text = stream_.push(tokenizer_->bytes_of(id));
    if (begins_ && !text.empty()) {
      begins_ = false;
      if (text.front() == ' ') text.erase(0, 1);
    }
    on_text(text);
  }
  return std::exchange(events_, {});
}

std::vector<AnswerEvent> AnswerParser::finish(bool cut) {
  if (ended_) return {};
  if (cut) {
    header_ = Header::none;
    header_bytes_.clear();
  }
  if (header_ != Header::none) finish_header(false);
  flush();
  return std::exchange(events_, {});
}

void AnswerParser::on_marker(std::int32_t id) {
  if (id == markers_.end || id == markers_.eos) {
    if (header_ != Header::none) finish_header(false);
    end_answer();
  } else if (id == markers_.sep) {
    if (header_ != Header::none) finish_header(true);
  } else if (id == markers_.open || id == markers_.close) {
    if (header_ != Header::none) finish_header(false);
    flush();
    header_ = id == markers_.open ? Header::open : Header::close;
  } else {
    flush();
    on_k2_marker(id);
  }
}

void AnswerParser::on_k2_marker(std::int32_t id) {
  if (id == markers_.think_begin || id == markers_.think_end) {
    return on_think_marker(id == markers_.think_begin);
  }
  if (id == markers_.call_begin) {
    if (header_ != Header::none) finish_header(false);
    close_call();
    go_to(Place::tools);
    header_ = Header::k2_call;
  } else if (id == markers_.arguments_begin) {
    if (header_ != Header::none) finish_header(true);
  } else if (id == markers_.tools_begin || id == markers_.call_end || id == markers_.tools_end) {
    if (header_ != Header::none) finish_header(false);
    close_call();
    go_to(id == markers_.tools_end ? Place::between : Place::tools);
  }
}

void AnswerParser::on_think_marker(bool begins) {
  if (header_ != Header::none) finish_header(false);
  if (in_call_ && !begins) return;  // no section that a call can be in
  close_call();
  go_to(begins ? Place::reasoning : Place::answer);
}

// Acts on the header that was collected. It is whole if its end marker came, and not just another
// marker or the end of the answer.
void AnswerParser::finish_header(bool whole) {
  const std::string header = whole_utf8(std::exchange(header_bytes_, {}));
  const Header kind = std::exchange(header_, Header::none);
  if (kind == Header::k2_call) {
    open_call(k2_tool_name(header));
    open_raw();
  } else if (kind == Header::open) {
    open_section(header, whole);
  } else {
    const std::string_view tag = std::string_view(header).substr(0, header.find_first_of(" \n"));
    if (!is_section(tag)) return on_text(header);
    close_section(tag);
    if (!whole) on_text(std::string_view(header).substr(tag.size()));
  }
}

void AnswerParser::open_section(std::string_view header, bool whole) {
  const ParsedHeader parsed = parse_header(header, whole);
  const std::string_view tag = parsed.tag;
  if (!is_section(tag)) return on_text(header);
  if (tag == "call") {
    open_call(parsed.value("tool"));
  } else if (tag == "argument" && in_call_) {
    open_argument(parsed.value("key"), parsed.value("type", "string"));
  } else if (tag == "json" && in_call_) {
    open_raw();
  } else if (tag == "message") {
    // Somebody else's turn is no part of this answer.
    if (parsed.value("role", "assistant") != "assistant") return end_answer();
    close_call();
    go_to(Place::between);
  } else {
    close_call();
    go_to(tag == "think" ? Place::reasoning : tag == "tools" ? Place::tools : Place::answer);
  }
  // A header without its end marker has run on into the text behind it.
  if (!whole || place_ == Place::reasoning || place_ == Place::answer) on_text(parsed.rest);
}

void AnswerParser::close_section(std::string_view tag) {
  if (tag == "argument" || tag == "json") {
    close_argument();
  } else if (tag == "call") {
    close_call();
  } else if (in_call_ && tag != "tools" && tag != "message") {
    return;  // no section that a call can be in
  } else if (place_ == Place::answer && tag == "think") {
    return;  // the answer goes on
  } else {
    close_call();
    go_to(Place::between);
  }
}

void AnswerParser::open_call(std::string name) {
  close_call();
  go_to(Place::call);
  in_call_ = true;
  members_ = 0;
  raw_ = false;
  argument_.clear();
  events_.push_back({AnswerEvent::Kind::call_begin, std::move(name), calls_++});
}

// Begins a member of the arguments' object.
void AnswerParser::begin_member(std::string_view key) {
  emit(AnswerEvent::Kind::call_arguments, (members_++ == 0 ? "{" : ", ") + json_string(key) + ": ");
}

void AnswerParser::open_argument(std::string_view key, std::string_view type) {
  close_argument();
  go_to(Place::argument);
  argument_.clear();
  if (raw_) return;  // the arguments are there already; this one is dropped
  string_argument_ = type == "string";
  begin_member(key);
  if (string_argument_) emit(AnswerEvent::Kind::call_arguments, "\"");
}

void AnswerParser::open_raw() {
  close_argument();
  if (members_ > 0 || raw_) return open_argument("json", "object");
  go_to(Place::raw);
  raw_ = true;
  raw_empty_ = true;
}

void AnswerParser::close_argument() {
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

void AnswerParser::close_call() {
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

void AnswerParser::go_to(Place place) {
  flush();
  place_ = place;
}

// Ends the text at this place: a character that is not finished never will be.
void AnswerParser::flush() {
  on_text(stream_.finish());
  blank_.clear();
}

void AnswerParser::on_text(std::string_view text) {
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

void AnswerParser::emit(AnswerEvent::Kind kind, std::string text) {
  const bool of_call =
      kind == AnswerEvent::Kind::call_arguments || kind == AnswerEvent::Kind::call_end;
  events_.push_back({kind, std::move(text), of_call ? calls_ - 1 : 0});
}

void AnswerParser::end_answer() {
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

Answer parse_answer(const Tokenizer& tokenizer, ChatFormat format, bool thinking,
                    std::span<const std::int32_t> ids) {
  AnswerParser parser(tokenizer, format, thinking);
  Answer answer;
  for (const std::int32_t id : ids) {
    for (const AnswerEvent& event : parser.push(id)) append(answer, event);
  }
  for (const AnswerEvent& event : parser.finish()) append(answer, event);
  return answer;
}

}  // namespace sluice::text
