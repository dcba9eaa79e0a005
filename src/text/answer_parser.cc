#include "text/answer_parser.h"

namespace sluice::text {
namespace {

std::unique_ptr<AnswerReader> reader_of(const Tokenizer& tokenizer, const ChatFormat& format,
                                        bool thinking) {
  switch (format.kind()) {
    case ChatFormat::Kind::kimi_k3:
      return read_sections(tokenizer, thinking);
    case ChatFormat::Kind::harmony:
      return read_channels(tokenizer, thinking);
    case ChatFormat::Kind::kimi_k2:
    case ChatFormat::Kind::jinja:
    case ChatFormat::Kind::chatml:
      break;
  }
  return read_thoughts(tokenizer, thinking);
}

}  // namespace

AnswerParser::AnswerParser(const Tokenizer& tokenizer, const ChatFormat& format, bool thinking)
    : reader_(reader_of(tokenizer, format, thinking)) {}

std::vector<AnswerEvent> AnswerParser::push(std::int32_t id) {
  if (ended()) return {};
  reader_->push(id);
  return reader_->answer().take();
}

std::vector<AnswerEvent> AnswerParser::finish(bool cut) {
  if (ended()) return {};
  reader_->finish(cut);
  return reader_->answer().take();
}

Answer parse_answer(const Tokenizer& tokenizer, const ChatFormat& format, bool thinking,
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
