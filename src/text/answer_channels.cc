// The answers of gpt-oss, in its harmony format: messages in channels,
//   <|channel|>analysis<|message|> ... <|end|>
//   <|start|>assistant<|channel|>final<|message|> ... <|return|>
// and calls, where what a message is addressed to may stand before the channel or behind it:
//   <|start|>assistant<|channel|>commentary to=functions.NAME
//   <|constrain|>json<|message|>{}<|call|>
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "text/answer_reader.h"

namespace sluice::text {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kRole = "assistant";
constexpr std::string_view kRecipient = "to=";
constexpr std::string_view kFunctions = "functions.";

/// Cuts off and returns the first word.
std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(kSpace));
  text.remove_prefix(word.size());
  return word;
}

/// Whom a part of a header names.
std::string_view recipient_in(std::string_view part) {
  while (true) {
    const std::string_view word = take_word(part);
    if (word.empty()) return {};
    if (word.starts_with(kRecipient)) return word.substr(kRecipient.size());
  }
}

bool is_channel(std::string_view word) {
  return word == "analysis" || word == "commentary" || word == "final";
}

class ChannelReader : public AnswerReader {
 public:
  /// The prompt ends inside the first message's header, or inside the reasoning.
  ChannelReader(const Tokenizer& tokenizer, bool thinking)
      : AnswerReader(tokenizer, thinking ? Place::reasoning : Place::between),
        start_(id_of("<|start|>")),
        channel_(id_of("<|channel|>")),
        constrain_(id_of("<|constrain|>")),
        message_(id_of("<|message|>")),
        end_(id_of("<|end|>")),
        call_(id_of("<|call|>")),
        return_(id_of("<|return|>")),
        eos_(id_of("<|endoftext|>")) {
    if (!thinking) begin(Part::role);
  }

 private:
  /// Of a header, the part that is being read.
  enum class Part { role, channel, constraint };

  void on_marker(std::int32_t id) override;
  void on_header(std::string_view header, bool whole) override;
  void on_header_bytes() override;
  void on_end() override { answer().close_call(); }
  void begin(Part part);
  void go_on_with(Part part);
  void begin_message(std::string_view channel, std::string_view recipient);

  const std::int32_t start_, channel_, constrain_, message_, end_, call_, return_, eos_;
  Part part_ = Part::role;
  bool names_role_ = false;        // the header began with <|start|>, so that a role comes first
  std::string role_, of_channel_;  // the parts that are over
};

void ChannelReader::on_marker(std::int32_t id) {
  if (id == return_ || id == call_ || id == eos_) {
    end_header(false);
    return answer().end_answer();
  }
  if (id == message_) return end_header(true);
  if (id == channel_) {
    if (in_header()) return go_on_with(Part::channel);
    answer().close_call();
    answer().go_to(Place::between);
    return begin(Part::channel);
  }
  if (id == constrain_ && in_header()) return go_on_with(Part::constraint);
  if (id == start_ || id == end_) {
    end_header(false);
    answer().close_call();
    answer().go_to(Place::between);
    if (id == start_) begin(Part::role);
    names_role_ = id == start_;
    return;
  }
  answer().flush();
}

void ChannelReader::begin(Part part) {
  part_ = part;
  names_role_ = false;
  role_.clear();
  of_channel_.clear();
  begin_header();
}

/// The part that was being read is over.
void ChannelReader::go_on_with(Part part) {
  if (part_ == Part::role) role_ = whole_utf8(header());
  if (part_ == Part::channel) of_channel_ = whole_utf8(header());
  part_ = part;
  begin_header();
}

/// Text where the first message's header should be is an answer without one.
void ChannelReader::on_header_bytes() {
  if (part_ != Part::role || names_role_) return;
  const std::string_view text = trimmed(header());
  if (text.starts_with(kRecipient) || kRecipient.starts_with(text)) return;
  const std::string bytes = header();  // which may end inside a character
  drop_header();
  answer().go_to(Place::answer);
  answer().on_bytes(bytes);
}

void ChannelReader::on_header(std::string_view header, bool whole) {
  if (part_ == Part::role) role_ = header;
  if (part_ == Part::channel) of_channel_ = header;
  std::string_view rest = role_;
  if (names_role_) {
    // Somebody else's turn is no part of this answer.
    if (!rest.empty() && !rest.starts_with(kRole)) return answer().end_answer();
    rest.remove_prefix(std::min(kRole.size(), rest.size()));
  }
  std::string_view recipient = recipient_in(rest);
  std::string_view behind = of_channel_;
  const std::string_view channel = take_word(behind);
  if (recipient.empty() && (whole || part_ == Part::constraint)) recipient = recipient_in(behind);
  if (whole) return begin_message(channel, recipient);
  // A header without its end marker has run on into the text behind it, or is text itself.
  if (part_ == Part::role || !is_channel(channel)) {
    answer().go_to(Place::answer);
    return answer().on_text(part_ == Part::role ? rest : std::string_view(of_channel_));
  }
  begin_message(channel, recipient);
  answer().on_text(part_ == Part::channel ? behind : header);
}

void ChannelReader::begin_message(std::string_view channel, std::string_view recipient) {
  if (recipient.empty()) {
    return answer().go_to(channel == "analysis" ? Place::reasoning : Place::answer);
  }
  if (recipient.starts_with(kFunctions)) recipient.remove_prefix(kFunctions.size());
  answer().open_call(std::string(recipient));
  answer().open_raw();
}

}  // namespace

std::unique_ptr<AnswerReader> read_channels(const Tokenizer& tokenizer, bool thinking) {
  return std::make_unique<ChannelReader>(tokenizer, thinking);
}

}  // namespace sluice::text
