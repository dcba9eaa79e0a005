#include "server/answer_writer.h"

#include <algorithm>
#include <utility>

namespace sluice::server {
namespace {

using text::Json;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// One beyond 64 bits: parse_json() keeps its digits as a binary value.
bool has_long_number(const Json& json) {
  if (json.is_binary()) return true;
  return json.is_structured() && std::any_of(json.begin(), json.end(), has_long_number);
}

void append(const Json& json, std::string& line) {
  if (json.is_binary()) {
    line.append(json.get_binary().begin(), json.get_binary().end());
    return;
  }
  if (!json.is_structured()) {
    line += dump(json);
    return;
  }
  line += json.is_object() ? '{' : '[';
  bool is_first = true;
  for (auto each = json.begin(); each != json.end(); ++each) {
    if (!std::exchange(is_first, false)) line += ',';
    if (json.is_object()) line.append(dump(each.key())).append(":");
    append(*each, line);
  }
  line += json.is_object() ? '}' : ']';
}

}  // namespace

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
  if (!has_long_number(json)) return dump(json);
  std::string line;
  append(json, line);
  return line;
}

std::string server_sent(const text::Json& data, std::string_view name) {
  const std::string line = fmt::format("data: {}\n\n", to_line(data));
  return name.empty() ? line : fmt::format("event: {}\n{}", name, line);
}

}  // namespace sluice::server
