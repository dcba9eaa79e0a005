// Everything between text and token ids: the tokenizer's files, texts, conversations, answers.
//
// The first byte of the input chooses which of them the rest is.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/answer_parser.h"
#include "text/chat.h"
#include "text/chat_jinja.h"
#include "text/detokenizer.h"
#include "text/json.h"
#include "text/stop.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using namespace sluice;
using namespace sluice::text;
using Special = Tokenizer::Special;

constexpr std::string_view kNoNames = R"({"added_tokens_decoder":{}})";

std::string base64_of_byte(unsigned byte) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  return {digits[byte >> 2], digits[(byte & 3) << 4], '=', '='};
}

/// The lines of the 256 single bytes, without which no rank file is accepted.
const std::string& byte_lines() {
  static const std::string lines = [] {
    std::string text;
    for (unsigned byte = 0; byte < 256; ++byte) {
      text += base64_of_byte(byte) + " " + std::to_string(byte) + "\n";
    }
    return text;
  }();
  return lines;
}

/// A tokenizer with K3's or K2's markers and a few merges.
Tokenizer make_tokenizer(const std::vector<std::string>& names) {
  const std::string merges =
      "dGg= 256\nIHQ= 257\nIHRo 258\nYWE= 259\nYWFhYQ== 260\n5ryi 261\nICA= 262\nbWVzc2FnZQ== "
      "263\n";
  Json named = Json::object();
  for (std::size_t i = 0; i < names.size(); ++i) {
    named[std::to_string(264 + i)] = {{"content", names[i]}};
  }
  const Json config = {{"added_tokens_decoder", named}};
  return Tokenizer::parse(byte_lines() + merges, config.dump()).value();
}

const Tokenizer& k3() {
  static const Tokenizer tokenizer = make_tokenizer(
      {"[BOS]", "[EOS]", "<|end_of_msg|>", "<|open|>", "<|close|>", "<|sep|>", "<|media_pad|>"});
  return tokenizer;
}

const Tokenizer& k2() {
  static const Tokenizer tokenizer = make_tokenizer(
      {"[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>",
       "<|im_middle|>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
       "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"});
  return tokenizer;
}

const Tokenizer& channels() {
  static const Tokenizer tokenizer =
      make_tokenizer({"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>",
                      "<|call|>", "<|return|>", "<|reserved|>"});
  return tokenizer;
}

std::size_t count_special(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  std::size_t count = 0;
  for (const std::int32_t id : ids) count += tokenizer.is_special(id) ? 1 : 0;
  return count;
}

/// Valid text comes back byte for byte, and has no control tokens unless they are asked for.
void check_text(const Tokenizer& tokenizer, std::string_view text) {
  for (const Special special : {Special::as_text, Special::as_control}) {
    const auto ids = tokenizer.encode(text, special);
    SLUICE_CHECK(ids.has_value() == !first_invalid_utf8(text).has_value());
    if (!ids) continue;
    SLUICE_CHECK(tokenizer.decode(*ids) == text);
    SLUICE_CHECK(special == Special::as_control || count_special(tokenizer, *ids) == 0);
  }
}

void fuzz_files(std::string_view ranks, std::string_view config) {
  const auto tokenizer = Tokenizer::parse(ranks, config);
  if (!tokenizer) return;
  SLUICE_CHECK(tokenizer->vocabulary() >= 512);
  check_text(*tokenizer, "the <|open|> 漢字 aaaa\n");
  std::string all;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(tokenizer->vocabulary()); ++id) {
    SLUICE_CHECK(!tokenizer->bytes_of(id).empty());
    if (!tokenizer->is_special(id)) continue;
    SLUICE_CHECK(tokenizer->special_id(tokenizer->bytes_of(id)) == id);
    all += tokenizer->bytes_of(id);
  }
  check_text(*tokenizer, all);
}

Json take(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? Json() : *found;
}

/// Whatever renders has exactly the control tokens that the format itself wrote.
void fuzz_chat(std::string_view text) {
  const auto json = parse_json(text, "fuzz", ErrorKind::usage);
  if (!json) return;
  ChatRequest request;
  request.messages = json->is_object() ? take(*json, "messages") : *json;
  request.tools = take(*json, "tools");
  request.tool_choice = take(*json, "tool_choice");
  request.response_format = take(*json, "response_format");
  for (const Tokenizer* tokenizer : {&k3(), &k2()}) {
    const ChatFormat format = ChatFormat::detect(*tokenizer).value();
    const auto segments = format.render(request);
    if (!segments) continue;
    std::size_t controls = 0;
    for (const Segment& segment : *segments) {
      SLUICE_CHECK(!segment.text.empty());
      controls += segment.control ? 1 : 0;
    }
    const auto ids = encode_segments(*tokenizer, *segments);
    SLUICE_CHECK(ids && count_special(*tokenizer, *ids) == controls);
  }
}

/// Each byte is an id: text below 0xE0, else a special one.
void fuzz_answer(std::string_view bytes) {
  const std::pair<const Tokenizer*, ChatFormat> forms[] = {
      {&k3(), ChatFormat::detect(k3()).value()},
      {&k2(), ChatFormat::detect(k2()).value()},
      {&channels(), ChatFormat(ChatFormat::Kind::harmony)}};
  for (const auto& [tokenizer, format] : forms) {
    std::vector<std::int32_t> ids;
    for (const char c : bytes) {
      const auto byte = static_cast<std::uint8_t>(c);
      ids.push_back(byte < 0xE0 ? byte : 264 + (byte & 15));
    }
    Detokenizer detokenizer(*tokenizer);
    std::string text;
    for (const std::int32_t id : ids) text += detokenizer.push(id);
    text += detokenizer.finish();
    SLUICE_CHECK(text == tokenizer->decode(ids) && !first_invalid_utf8(text));

    const Answer answer = parse_answer(*tokenizer, format, bytes.size() % 2 == 0, ids);
    SLUICE_CHECK(!first_invalid_utf8(answer.reasoning + answer.text));
    for (const auto& call : answer.calls)
      SLUICE_CHECK(!first_invalid_utf8(call.name + call.arguments));
  }
}

/// A template renders within bounds, or says where it does not. What it writes of a message is no
/// control token.
void fuzz_template(std::string_view source) {
  auto parsed = jinja::Template::parse(source);
  if (!parsed) {
    SLUICE_CHECK(parsed.error().message.find("line") == 0);
    return;
  }
  const JinjaChat chat = {std::move(*parsed), {"<|start|>", "<|end|>"}, "<s>", "</s>", true};
  ChatRequest request;
  request.messages = Json::array({{{"role", "system"}, {"content", "<|end|>"}},
                                  {{"role", "user"}, {"content", "<|end|>"}},
                                  {{"role", "assistant"}, {"content", "<|end|>"}}});
  request.now.emplace();
  const auto segments = render_jinja(chat, request);
  if (!segments) return;
  for (const Segment& segment : *segments) SLUICE_CHECK(!segment.text.empty());
}

/// The first line is a stop string, the next byte how far to read at once.
void fuzz_stop(std::string_view text) {
  const std::size_t line = text.find('\n');
  if (line == std::string_view::npos || line + 1 >= text.size()) return;
  auto whole = StopMatcher::create({std::string(text.substr(0, line)), "ab"});
  if (!whole) return;
  StopMatcher cut = *whole;
  const std::size_t step = static_cast<std::uint8_t>(text[line + 1]) % 7 + 1;
  text.remove_prefix(line + 2);
  std::string expected = whole->push(text).text;
  expected += whole->finish();
  std::string joined;
  for (std::size_t at = 0; at < text.size(); at += step)
    joined += cut.push(text.substr(at, step)).text;
  joined += cut.finish();
  SLUICE_CHECK(joined == expected);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 8) {
    case 0:
      fuzz_files(input, kNoNames);
      break;
    case 1:
      fuzz_files(byte_lines() + std::string(input), kNoNames);
      break;
    case 2:
      fuzz_files(byte_lines(), input);
      break;
    case 3:
      check_text(k3(), input);
      break;
    case 4:
      fuzz_chat(input);
      break;
    case 5:
      fuzz_answer(input);
      break;
    case 6:
      fuzz_stop(input);
      break;
    default:
      fuzz_template(input);
      break;
  }
  return 0;
}
