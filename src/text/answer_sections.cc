// K3's answers: <|open|>response<|sep|> ... <|close|>response<|sep|> (SPEC 10).
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/answer_reader.h"
#include "text/chat_k3.h"

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

class SectionReader : public AnswerReader {
 public:
  SectionReader(const Tokenizer& tokenizer, Place place)
      : AnswerReader(tokenizer, place),
        open_(id_of("<|open|>")),
        close_(id_of("<|close|>")),
        sep_(id_of("<|sep|>")),
        end_(id_of("<|end_of_msg|>")),
        eos_(id_of("[EOS]")) {}

 private:
  void on_marker(std::int32_t id) override;
  void on_header(std::string_view header, bool whole) override;
  void open_section(std::string_view header, bool whole);
  void close_section(std::string_view tag);

  const std::int32_t open_, close_, sep_, end_, eos_;
  bool opens_ = false;  // the header is of a section that begins
};

void SectionReader::on_marker(std::int32_t id) {
  if (id == end_ || id == eos_) {
    end_header(false);
    answer().end_answer();
  } else if (id == sep_) {
    end_header(true);
  } else if (id == open_ || id == close_) {
    end_header(false);
    answer().flush();
    opens_ = id == open_;
    begin_header();
  } else {
    answer().flush();
  }
}

void SectionReader::on_header(std::string_view header, bool whole) {
  if (opens_) return open_section(header, whole);
  const std::string_view tag = header.substr(0, header.find_first_of(" \n"));
  if (!is_section(tag)) return answer().on_text(header);
  close_section(tag);
  if (!whole) answer().on_text(header.substr(tag.size()));
}

void SectionReader::open_section(std::string_view header, bool whole) {
  const ParsedHeader parsed = parse_header(header, whole);
  const std::string_view tag = parsed.tag;
  if (!is_section(tag)) return answer().on_text(header);
  if (tag == "call") {
    answer().open_call(parsed.value("tool"));
  } else if (tag == "argument" && answer().in_call()) {
    answer().open_argument(parsed.value("key"), parsed.value("type", "string"));
  } else if (tag == "json" && answer().in_call()) {
    answer().open_raw();
  } else if (tag == "message") {
    // Somebody else's turn is no part of this answer.
    if (parsed.value("role", "assistant") != "assistant") return answer().end_answer();
    answer().close_call();
    answer().go_to(Place::between);
  } else {
    answer().close_call();
    answer().go_to(tag == "think"   ? Place::reasoning
                   : tag == "tools" ? Place::tools
                                    : Place::answer);
  }
  // A header without its end marker has run on into the text behind it.
  if (!whole || answer().place() == Place::reasoning || answer().place() == Place::answer)
    answer().on_text(parsed.rest);
}

void SectionReader::close_section(std::string_view tag) {
  if (tag == "argument" || tag == "json") {
    answer().close_argument();
  } else if (tag == "call") {
    answer().close_call();
  } else {
    const bool holds_calls = tag == "tools" || tag == "message";
    if (answer().in_call() && !holds_calls) return;
    if (answer().place() == Place::answer && tag == "think") return;  // the answer goes on
    answer().close_call();
    answer().go_to(Place::between);
  }
}

}  // namespace

std::unique_ptr<AnswerReader> read_sections(const Tokenizer& tokenizer, bool thinking) {
  using Place = AnswerBuilder::Place;
  return std::make_unique<SectionReader>(tokenizer, thinking ? Place::reasoning : Place::answer);
}

}  // namespace sluice::text
