#include "server/answer_writer.h"

namespace sluice::server {

void WholeChoice::add(const AnswerStep& step) {
  using Kind = AnswerBlock::Kind;
  const auto to_block = [&](Kind kind) -> AnswerBlock& {
    if (blocks.empty() || blocks.back().kind != kind) blocks.push_back({kind, {}, {}, {}});
    return blocks.back();
  };
  for (const auto& each : step.log_probabilities) log_probabilities.push_back(each);
  switch (step.kind) {
    case AnswerStep::Kind::reasoning:
      to_block(Kind::reasoning).text += step.text;
      return;
    case AnswerStep::Kind::text:
      if (!step.text.empty()) to_block(Kind::text).text += step.text;
      return;
    case AnswerStep::Kind::call_begin:
      blocks.push_back({Kind::call, {}, step.text, step.call_id});
      return;
    case AnswerStep::Kind::call_arguments:
      to_block(Kind::call).text += step.text;
      return;
    case AnswerStep::Kind::call_end:
      return;
  }
}

std::string WholeChoice::joined(AnswerBlock::Kind kind) const {
  std::string all;
  for (const AnswerBlock& block : blocks) {
    if (block.kind == kind) all += block.text;
  }
  return all;
}

std::string to_line(const text::Json& json) {
  return json.dump(-1, ' ', false, text::Json::error_handler_t::replace);
}

std::string server_sent(const text::Json& data, std::string_view name) {
  const std::string line = fmt::format("data: {}\n\n", to_line(data));
  return name.empty() ? line : fmt::format("event: {}\n{}", name, line);
}

}  // namespace sluice::server
