// Answers with <think> ... </think> before them and calls as Kimi K2 writes them.
#include <cstddef>
#include <string>
#include <string_view>

#include "text/answer_reader.h"

namespace sluice::text {
namespace {

// Of "functions.NAME:0", K2's way to name a call, the NAME.
std::string k2_tool_name(std::string_view header) {
  header = trimmed(header);
  if (header.starts_with("functions.")) header.remove_prefix(10);
  const std::size_t colon = header.rfind(':');
  if (colon != std::string_view::npos &&
      header.find_first_not_of("0123456789", colon + 1) == std::string_view::npos) {
    header = header.substr(0, colon);
  }
  return std::string(header);
}

class ThoughtReader : public AnswerReader {
 public:
  ThoughtReader(const Tokenizer& tokenizer, Place place)
      : AnswerReader(tokenizer, place),
        think_begin_(id_of("<think>")),
        think_end_(id_of("</think>")),
        tools_begin_(id_of("<|tool_calls_section_begin|>")),
        call_begin_(id_of("<|tool_call_begin|>")),
        arguments_begin_(id_of("<|tool_call_argument_begin|>")),
        call_end_(id_of("<|tool_call_end|>")),
        tools_end_(id_of("<|tool_calls_section_end|>")),
        end_(id_of("<|im_end|>")),
        eos_(id_of("[EOS]")) {}

 private:
  /// Some tokenizers call <think> text.
  bool is_marker(std::int32_t id) const override {
    return AnswerReader::is_marker(id) || id == think_begin_ || id == think_end_;
  }
  void on_marker(std::int32_t id) override;
  void on_think_marker(bool begins);
  void on_header(std::string_view header, bool /*whole*/) override {
    answer().open_call(k2_tool_name(header));
    answer().open_raw();
  }

  const std::int32_t think_begin_, think_end_;
  const std::int32_t tools_begin_, call_begin_, arguments_begin_, call_end_, tools_end_;
  const std::int32_t end_, eos_;
};

void ThoughtReader::on_marker(std::int32_t id) {
  if (id == end_ || id == eos_) {
    end_header(false);
    return answer().end_answer();
  }
  answer().flush();
  if (id == think_begin_ || id == think_end_) return on_think_marker(id == think_begin_);
  if (id == call_begin_) {
    end_header(false);
    answer().close_call();
    answer().go_to(Place::tools);
    begin_header();
  } else if (id == arguments_begin_) {
    end_header(true);
  } else if (id == tools_begin_ || id == call_end_ || id == tools_end_) {
    end_header(false);
    answer().close_call();
    answer().go_to(id == tools_end_ ? Place::between : Place::tools);
  }
}

void ThoughtReader::on_think_marker(bool begins) {
  end_header(false);
  if (answer().in_call() && !begins) return;  // no section that a call can be in
  answer().close_call();
  answer().go_to(begins ? Place::reasoning : Place::answer);
}

}  // namespace

std::unique_ptr<AnswerReader> read_thoughts(const Tokenizer& tokenizer, bool thinking) {
  using Place = AnswerBuilder::Place;
  return std::make_unique<ThoughtReader>(tokenizer, thinking ? Place::reasoning : Place::answer);
}

}  // namespace sluice::text
