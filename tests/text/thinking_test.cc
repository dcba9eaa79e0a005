// Promise: what a model thinks is reasoning and no answer, whether the prompt opened it or the
// model itself, in every format, and wherever the text is cut into tokens.
#include <gtest/gtest.h>

#include "golden.h"
#include "integer_answer.h"
#include "shown_answer.h"
#include "text/answer_grammar.h"
#include "text/answer_parser.h"

namespace sluice::text {
namespace {

using Ids = std::vector<std::int32_t>;
using Kind = ChatFormat::Kind;

const std::vector<std::string> kMarkers = {"<|im_end|>",
                                           "<|im_start|>",
                                           "<think>",
                                           "</think>",
                                           "<|tool_calls_section_begin|>",
                                           "<|tool_call_begin|>",
                                           "<|tool_call_argument_begin|>",
                                           "<|tool_call_end|>",
                                           "<|tool_calls_section_end|>",
                                           "[EOS]"};

const Tokenizer& thinking_tokenizer() {
  static const Tokenizer one = tokenizer_with(kMarkers);
  return one;
}

Ids thinking_ids(std::string_view written,
                 Tokenizer::Special special = Tokenizer::Special::as_control) {
  return thinking_tokenizer().encode(written, special).value();
}

/// The answer to a prompt that ends like this.
std::string answer_to(Kind kind, std::string_view prompt, const Ids& written) {
  const ChatFormat format(kind);
  const bool thinking = format.opens_reasoning(thinking_tokenizer(), thinking_ids(prompt));
  return show(parse_answer(thinking_tokenizer(), format, thinking, written));
}

TEST(Thinking, AThoughtThatThePromptOpenedIsReasoning) {
  for (const Kind kind : {Kind::chatml, Kind::jinja, Kind::kimi_k2}) {
    for (const char* prompt : {"assistant\n<think>", "<think>\n", "<think> \n\t "}) {
      const auto answer = [&](std::string_view written) {
        return answer_to(kind, prompt, thinking_ids(written));
      };
      EXPECT_EQ(answer("why</think>so"), "[why][so]");
      EXPECT_EQ(answer("why</think>so<|im_end|>more"), "[why][so].");
      EXPECT_EQ(answer("<think>why</think>so[EOS]"), "[why][so].");
      // A missing end.
      EXPECT_EQ(answer("why"), "[why][]");
      EXPECT_EQ(answer("why<|im_end|>so"), "[why][].");
      EXPECT_EQ(answer("why<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}"
                       "<|tool_call_end|>"),
                "[why][] f({})");
    }
  }
}

TEST(Thinking, AThoughtThatTheModelOpensIsReasoning) {
  for (const Kind kind : {Kind::chatml, Kind::jinja, Kind::kimi_k2}) {
    const auto answer = [&](std::string_view written) {
      return answer_to(kind, "<|im_start|>assistant\n", thinking_ids(written));
    };
    EXPECT_EQ(answer("so"), "[][so]");
    EXPECT_EQ(answer("<think>why</think>so<|im_end|>"), "[why][so].");
    EXPECT_EQ(answer("<think>why"), "[why][]");
    EXPECT_EQ(answer("why</think>so"), "[][whyso]");  // nobody had opened it
    EXPECT_EQ(answer("<think>why</think><|tool_calls_section_begin|><|tool_call_begin|>functions.f"
                     ":0<|tool_call_argument_begin|>{\"a\": 1}</think><|tool_call_end|>"
                     "<|tool_calls_section_end|><|im_end|>"),
              "[why][] f({\"a\": 1}).");
    EXPECT_EQ(answer("<|tool_call_begin|>f<|tool_call_argument_begin|>{}<think>why</think>so"),
              "[why][so] f({})");
  }
}

TEST(Thinking, MarkersSpelledInTextAreText) {
  Ids written = thinking_ids("a</think>b<think>", Tokenizer::Special::as_text);
  EXPECT_EQ(answer_to(Kind::jinja, "<think>", written), "[a</think>b<think>][]");
  EXPECT_EQ(answer_to(Kind::jinja, "", written), "[][a</think>b<think>]");
}

/// The tokens of a text, but that one that goes over the cut becomes its bytes.
Ids cut_at(std::string_view text, std::size_t cut) {
  Ids ids;
  std::size_t at = 0;
  for (const std::int32_t id : thinking_ids(text)) {
    const std::string_view bytes = thinking_tokenizer().bytes_of(id);
    const bool is_cut = at < cut && cut < at + bytes.size() && !thinking_tokenizer().is_special(id);
    at += bytes.size();
    if (!is_cut) ids.push_back(id);
    for (std::size_t i = 0; is_cut && i < bytes.size(); ++i) {
      std::int32_t byte = 0;
      while (thinking_tokenizer().bytes_of(byte) != bytes.substr(i, 1)) ++byte;
      ids.push_back(byte);
    }
  }
  return ids;
}

TEST(Thinking, EveryCutOfTheTextGivesTheSame) {
  const std::string text = "why the w\u00e4gen \U0001F642</think>so the Gr\u00fc\u00dfe";
  std::size_t cuts = 0;
  for (const Kind kind : {Kind::chatml, Kind::jinja, Kind::kimi_k2}) {
    for (std::size_t at = 0; at <= text.size(); ++at) {
      const Ids ids = cut_at(text, at);
      cuts += ids != thinking_ids(text) ? 1 : 0;
      ASSERT_EQ(thinking_tokenizer().decode(ids), text);
      EXPECT_EQ(answer_to(kind, "<think>\n", ids),
                "[why the w\u00e4gen \U0001F642][so the Gr\u00fc\u00dfe]")
          << at;
    }
  }
  EXPECT_GT(cuts, 10u);
}

TEST(Thinking, APromptOpensItOnlyAtItsEnd) {
  const auto opens = [](Kind kind, std::string_view prompt) {
    return ChatFormat(kind).opens_reasoning(thinking_tokenizer(), thinking_ids(prompt));
  };
  for (const Kind kind : {Kind::chatml, Kind::jinja, Kind::kimi_k2}) {
    EXPECT_TRUE(opens(kind, "a</think>b<think>\n"));
    EXPECT_FALSE(opens(kind, ""));
    EXPECT_FALSE(opens(kind, " \n"));
    EXPECT_FALSE(opens(kind, "<think>\n\n</think>\n\n"));
    EXPECT_FALSE(opens(kind, "<think>\na"));
    EXPECT_FALSE(opens(kind, "<think><|im_start|>assistant\n"));
    EXPECT_FALSE(ChatFormat(kind).opens_reasoning(
        thinking_tokenizer(), thinking_ids("<think>\n", Tokenizer::Special::as_text)));
    EXPECT_FALSE(ChatFormat(kind).opens_reasoning(k2_tokenizer(), {}));
  }
  const ChatFormat k3(Kind::kimi_k3);
  for (const bool thinking : {true, false}) {
    ChatRequest request;
    request.messages = Json::array({{{"role", "user"}, {"content", "<|open|>think<|sep|>"}}});
    request.thinking = thinking;
    const Ids prompt = k3.encode(golden_tokenizer(), request).value();
    EXPECT_EQ(k3.opens_reasoning(golden_tokenizer(), prompt), thinking);
    EXPECT_FALSE(k3.opens_reasoning(golden_tokenizer(), Ids(prompt.begin(), prompt.end() - 1)));
  }
}

TEST(Thinking, JsonIsAskedForBehindTheThought) {
  const auto may_be = [](Thought thought, std::string_view written) {
    return integer_may_be(thinking_tokenizer(), ChatFormat(Kind::jinja), thought, written,
                          "<|im_end|>");
  };
  EXPECT_TRUE(may_be(Thought::none, "12"));
  EXPECT_FALSE(may_be(Thought::none, "<think>why</think>12"));
  EXPECT_TRUE(may_be(Thought::allowed, "12"));
  EXPECT_TRUE(may_be(Thought::allowed, "<think>why</think>\n12"));
  EXPECT_FALSE(may_be(Thought::allowed, "why</think>12"));
  EXPECT_TRUE(may_be(Thought::begun, "why 13</think>\n12"));
  EXPECT_FALSE(may_be(Thought::begun, "12"));  // all of it would be reasoning
  EXPECT_FALSE(may_be(Thought::begun, "why</think>because"));
}

}  // namespace
}  // namespace sluice::text
