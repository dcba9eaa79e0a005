#include "text/answer_parser.h"

#include <gtest/gtest.h>

#include "golden.h"
#include "shown_answer.h"

namespace sluice::text {
namespace {

using Ids = std::vector<std::int32_t>;

// Special spellings in `written` are markers here, as the model itself would write them.
Ids k3_ids(std::string_view written) {
  return golden_tokenizer().encode(written, Tokenizer::Special::as_control).value();
}

Answer k3(std::string_view written, bool thinking = true) {
  return parse_answer(golden_tokenizer(), kK3, thinking, k3_ids(written));
}

Answer k2(std::string_view written) {
  const auto ids = k2_tokenizer().encode(written, Tokenizer::Special::as_control).value();
  return parse_answer(k2_tokenizer(), kK2, false, ids);
}

TEST(AnswerParser, SeparatesReasoningAnswerAndCalls) {
  EXPECT_EQ(show(k3("Hm. <|close|>think<|sep|><|open|>response<|sep|>Hi!<|close|>response<|sep|>"
                    "<|close|>message<|sep|><|end_of_msg|>")),
            "[Hm. ][Hi!].");
  EXPECT_EQ(show(k3("Hi!<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>", false)),
            "[][Hi!].");
  EXPECT_EQ(
      show(k3(
          "<|close|>think<|sep|><|open|>response<|sep|><|close|>response<|sep|><|open|>tools<|sep|>"
          "<|open|>call tool=\"a&amp;&quot;b\" index=\"1\"<|sep|>"
          "<|open|>argument key=\"s\" type=\"string\"<|sep|>say \"hi\"\n<|close|>argument<|sep|>"
          "<|open|>argument key=\"n\" type=\"number\"<|sep|>1.50<|close|>argument<|sep|>"
          "<|open|>argument key=\"o\" type=\"object\"<|sep|>{\"x\": [1]}<|close|>argument<|sep|>"
          "<|close|>call<|sep|><|open|>call tool=\"none\" index=\"2\"<|sep|><|close|>call<|sep|>"
          "<|open|>call tool=\"raw\" index=\"3\"<|sep|><|open|>json type=\"object\"<|sep|>{\"a\": "
          "1<|close|>json<|sep|>"
          "<|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>")),
      "[][] a&\"b({\"s\": \"say \\\"hi\\\"\\n\", \"n\": 1.50, \"o\": {\"x\": [1]}}) none({}) "
      "raw({\"a\": 1).");
}

TEST(AnswerParser, LiteralMarkersInTextAreText) {
  const Tokenizer& tokenizer = golden_tokenizer();
  const auto literal = [&](std::string_view text) {
    return tokenizer.encode(text, Tokenizer::Special::as_text).value();
  };
  Ids ids;
  for (const Ids& part :
       {literal("<|close|>think<|sep|>"), k3_ids("<|close|>think<|sep|><|open|>response<|sep|>"),
        literal("<|end_of_msg|>")}) {
    ids.insert(ids.end(), part.begin(), part.end());
  }
  EXPECT_EQ(show(parse_answer(tokenizer, kK3, true, ids)),
            "[<|close|>think<|sep|>][<|end_of_msg|>]");
}

TEST(AnswerParser, AMissingEndIsMadeGoodByWhatFollows) {
  EXPECT_EQ(show(k3("why<|open|>response<|sep|>so<|end_of_msg|>")), "[why][so].");
  EXPECT_EQ(show(k3("why<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|>"
                    "<|open|>argument key=\"k\" type=\"string\"<|sep|>v<|end_of_msg|>")),
            "[why][] f({\"k\": \"v\"}).");
  EXPECT_EQ(show(k3("why<|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"a\" "
                    "type=\"number\"<|sep|>1"
                    "<|open|>argument key=\"b\" type=\"null\"<|sep|>null<|open|>call "
                    "tool=\"g\"<|sep|><|close|>tools<|sep|>[EOS]")),
            "[why][] f({\"a\": 1, \"b\": null}) g({}).");
  EXPECT_EQ(show(k3("why<|close|>think<|open|>response<|sep|>so")), "[why][so]");
  EXPECT_EQ(show(k3("why<|close|>think<|sep|>so", true)), "[why][so]");
  EXPECT_EQ(show(k3("why<|close|>think<|sep|>\n\n<|open|>response<|sep|>so", true)), "[why][so]");
  EXPECT_EQ(show(k3("one<|close|>think<|sep|>two", false)), "[][onetwo]");
}

TEST(AnswerParser, BothEndMarkersEndAndNothingFollows) {
  EXPECT_EQ(show(k3("a[EOS]b")), "[a][].");
  EXPECT_EQ(show(k3("a<|end_of_msg|>b<|open|>response<|sep|>c")), "[a][].");
  EXPECT_EQ(show(k3("a<|close|>think<|sep|><|open|>message role=\"user\"<|sep|>mine")), "[a][].");
  AnswerParser parser(golden_tokenizer(), kK3, true);
  EXPECT_FALSE(parser.ended());
  const auto events = parser.push(golden_tokenizer().special_id("[EOS]").value());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, AnswerEvent::Kind::end);
  EXPECT_TRUE(parser.ended());
  EXPECT_TRUE(parser.push(64).empty());
  EXPECT_TRUE(parser.finish().empty());
}

TEST(AnswerParser, AMalformedHeaderBecomesTextAndLosesNoTurn) {
  const std::string tail = "<|close|>think<|sep|><|open|>response<|sep|>ok<|end_of_msg|>";
  EXPECT_EQ(show(k3("a<|open|>no such<|sep|>b" + tail)), "[ano suchb][ok].");
  EXPECT_EQ(show(k3("a<|close|>no such<|sep|>b" + tail)), "[ano suchb][ok].");
  EXPECT_EQ(show(k3("a<|sep|>b" + tail)), "[ab][ok].");
  EXPECT_EQ(show(k3("a<|open|><|open|><|close|><|sep|>b" + tail)), "[ab][ok].");
  EXPECT_EQ(show(k3("a[PAD]<|media_pad|>b" + tail)), "[ab][ok].");
  EXPECT_EQ(show(k3("a<|close|>think<|sep|><|open|>response and the text<|end_of_msg|>")),
            "[a][ and the text].");
  EXPECT_EQ(show(k3("a<|close|>think<|sep|><|open|>response k=\"v\" x<|sep|>b")), "[a][ xb]");
  EXPECT_EQ(show(k3("<|open|>call tool=f index=1<|sep|>{\"a\": 1}\n<|close|>call<|sep|>")),
            "[][] f({\"a\": 1})");
  EXPECT_EQ(show(k3("<|open|>call tool=\"f<|sep|><|close|>call<|sep|>")), "[][] ({})");
  EXPECT_EQ(show(k3("<|open|>argument key=\"k\"<|sep|>lost?<|close|>argument<|sep|>")),
            "[][lost?]");
}

TEST(AnswerParser, ArgumentsAreAlwaysJson) {
  const auto argument = [](const std::string& type, const std::string& text) {
    const Answer answer =
        k3("<|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\" type=\"" + type + "\"<|sep|>" +
           text + "<|close|>argument<|sep|><|close|>call<|sep|>");
    EXPECT_TRUE(is_json(answer.calls.at(0).arguments)) << answer.calls.at(0).arguments;
    return answer.calls.at(0).arguments;
  };
  EXPECT_EQ(argument("string", "5"), "{\"k\": \"5\"}");
  EXPECT_EQ(argument("string", ""), "{\"k\": \"\"}");
  EXPECT_EQ(argument("", "x"), "{\"k\": \"x\"}");
  EXPECT_EQ(argument("number", " 5 "), "{\"k\": 5}");
  EXPECT_EQ(argument("number", "five"), "{\"k\": \"five\"}");
  EXPECT_EQ(argument("number", ""), "{\"k\": \"\"}");
  EXPECT_EQ(argument("boolean", "True"), "{\"k\": \"True\"}");
  EXPECT_EQ(argument("object", "{\"a\": \"东京\"}"), "{\"k\": {\"a\": \"东京\"}}");
  EXPECT_EQ(argument("object", "{'a'}"), "{\"k\": \"{'a'}\"}");
  EXPECT_EQ(argument("object", std::string(100'000, '[')),
            "{\"k\": \"" + std::string(100'000, '[') + "\"}");
  EXPECT_EQ(argument("string", std::string(100'000, '"')).size(), 200'009u);
  // The second raw text cannot be arguments too.
  const std::string raw = "<|open|>json type=\"object\"<|sep|>";
  EXPECT_EQ(show(k3("<|open|>call tool=\"f\"<|sep|>" + raw + "{\"a\":1}<|close|>json<|sep|>" + raw +
                    "{}<|close|>json<|sep|><|close|>call<|sep|>")),
            "[][] f({\"a\":1})");
  EXPECT_EQ(
      show(k3("<|open|>call tool=\"f\"<|sep|>" + raw + "<|close|>json<|sep|><|close|>call<|sep|>")),
      "[][] f({})");
}

TEST(AnswerParser, WhatIsCutOffIsSaidToBe) {
  EXPECT_EQ(
      show(k3("<|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\" type=\"string\"<|sep|>v")),
      "[][] f({\"k\": \"v)...");
  EXPECT_EQ(show(k3("a<|open|>resp")), "[aresp][]");
  Ids ids = k3_ids("a🙂");
  ids.pop_back();
  EXPECT_EQ(show(parse_answer(golden_tokenizer(), kK3, true, ids)), "[a\uFFFD][]");
  for (const auto id : k3_ids("<|close|>think<|sep|>b")) ids.push_back(id);
  EXPECT_EQ(show(parse_answer(golden_tokenizer(), kK3, true, ids)), "[a\uFFFD][b]");
}

TEST(AnswerParser, EventsComeAsEarlyAsTheyAreCertain) {
  AnswerParser parser(golden_tokenizer(), kK3, false);
  const auto ids =
      k3_ids("the<|open|>call tool=\"f\"<|sep|><|open|>argument key=\"k\" type=\"string\"<|sep|>a");
  std::vector<std::string> seen;
  for (const auto id : ids) {
    for (const auto& event : parser.push(id)) seen.push_back(event.text);
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"t", "he", "f", "{\"k\": ", "\"", "a"}));
}

TEST(AnswerParser, K2KnowsAnswersAndCalls) {
  EXPECT_EQ(show(k2("Hi!<|im_end|>more")), "[][Hi!].");
  EXPECT_EQ(show(k2("Hi![EOS]")), "[][Hi!].");
  EXPECT_EQ(show(k2("Look.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|"
                    "tool_call_argument_begin|>"
                    "{\"city\": "
                    "\"Bern\"}<|tool_call_end|><|tool_call_begin|>functions.a.b:12<|tool_call_"
                    "argument_begin|>"
                    "<|tool_call_end|><|tool_calls_section_end|><|im_end|>")),
            "[][Look.] get_weather({\"city\": \"Bern\"}) a.b({}).");
  EXPECT_EQ(show(k2("<|tool_call_begin|>f<|tool_call_argument_begin|>{\"a")), "[][] f({\"a)...");
  EXPECT_EQ(show(k2("<|open|>x")), "[][<|open|>x]");
}

// What the model would have to write for this message, and what comes back from parsing it.
TEST(AnswerParser, UndoesWhatTheChatFormatDoes) {
  Random random(9);
  const auto text = [&](std::size_t most) { return random_text(random, most); };
  const auto value = [&]() -> Json {
    switch (random.below(8)) {
      case 0:
        return nullptr;
      case 1:
        return random.below(2) == 0;
      case 2:
        return static_cast<std::int64_t>(random.below(1'000'000));
      case 3:
        return 0.5 * static_cast<double>(random.below(100));
      case 4:
        return Json::array({1, text(3), nullptr});
      case 5:
        return {{text(2), 1.5}, {"b", text(4)}};
      default:
        return text(8);
    }
  };
  for (int round = 0; round < 400; ++round) {
    Json calls = Json::array();
    for (std::size_t n = random.below(3); n > 0; --n) {
      Json arguments = Json::object();
      for (std::size_t m = random.below(4); m > 0; --m) arguments[text(3)] = value();
      const bool raw = random.below(5) == 0;
      calls.push_back({{"function",
                        {{"name", text(3)},
                         {"arguments", raw ? Json(fmt::format("{{{}]", text(4))) : arguments}}}});
    }
    Json message = {{"role", "assistant"}, {"reasoning_content", text(8)}, {"content", text(8)}};
    if (!calls.empty()) message["tool_calls"] = calls;
    ChatRequest before;
    before.messages = Json::array({{{"role", "user"}, {"content", "Go"}}});
    ChatRequest after = before;
    after.messages.push_back(message);
    after.generation_prompt = false;
    const Ids prompt = kK3.encode(golden_tokenizer(), before).value();
    const Ids all = kK3.encode(golden_tokenizer(), after).value();
    ASSERT_TRUE(std::equal(prompt.begin(), prompt.end(), all.begin()));
    const Ids written(all.begin() + static_cast<std::ptrdiff_t>(prompt.size()), all.end());

    const Answer answer = parse_answer(golden_tokenizer(), kK3, true, written);
    EXPECT_TRUE(answer.ended);
    EXPECT_EQ(answer.text, message["content"].get<std::string>());
    ASSERT_EQ(answer.calls.size(), calls.size());
    Json again = {{"role", "assistant"}, {"reasoning", answer.reasoning}, {"content", answer.text}};
    for (std::size_t i = 0; i < calls.size(); ++i) {
      EXPECT_TRUE(answer.calls[i].whole);
      again["tool_calls"].push_back(
          {{"function",
            {{"name", answer.calls[i].name}, {"arguments", answer.calls[i].arguments}}}});
    }
    after.messages.back() = again;  // a client sends back what it got: the same ids must come out
    ASSERT_EQ(kK3.encode(golden_tokenizer(), after).value(), all) << message;
  }
}

TEST(AnswerParser, AnyIdsGiveValidEventsAndOneAnswerHoweverTheTextIsCut) {
  const Tokenizer& tokenizer = golden_tokenizer();
  const std::vector<std::string> parts = {"<|open|>",
                                          "<|close|>",
                                          "<|sep|>",
                                          "<|open|>",
                                          "<|close|>",
                                          "<|sep|>",
                                          "think",
                                          "response",
                                          "tools",
                                          "call",
                                          " tool=\"f\"",
                                          "argument",
                                          " key=\"k\"",
                                          " type=\"number\"",
                                          "json",
                                          "message",
                                          " role=\"user\"",
                                          " ",
                                          "\n",
                                          "\"",
                                          "1",
                                          "{",
                                          "text",
                                          "漢",
                                          "[PAD]",
                                          "=",
                                          "&quot;"};
  Random random(10);
  for (int round = 0; round < 4'000; ++round) {
    std::string written;
    for (std::size_t n = random.below(40); n > 0; --n) written += parts[random.below(parts.size())];
    const Ids ids = k3_ids(written);
    Ids bytes;  // the same text, one token per byte
    for (const auto id : ids) {
      if (tokenizer.is_special(id)) {
        bytes.push_back(id);
      } else {
        for (const char c : tokenizer.bytes_of(id)) {
          std::int32_t byte = 0;
          while (tokenizer.bytes_of(byte) != std::string_view(&c, 1)) ++byte;
          bytes.push_back(byte);
        }
      }
    }
    const Answer answer = parse_answer(tokenizer, kK3, random.below(2) == 0, ids);
    EXPECT_FALSE(first_invalid_utf8(answer.reasoning + answer.text));
    const bool thinking = random.below(2) == 0;
    ASSERT_EQ(show(parse_answer(tokenizer, kK3, thinking, ids)),
              show(parse_answer(tokenizer, kK3, thinking, bytes)))
        << written;
  }
  for (int round = 0; round < 4'000; ++round) {
    Ids ids;
    for (std::size_t n = random.below(60); n > 0; --n) {
      ids.push_back(static_cast<std::int32_t>(random.below(2) ? 1'200 + random.below(8)
                                                              : random.below(1'460)));
    }
    const Answer answer = parse_answer(tokenizer, random.below(2) ? kK3 : kK2, true, ids);
    EXPECT_FALSE(first_invalid_utf8(show(answer)));
  }
}

}  // namespace
}  // namespace sluice::text
