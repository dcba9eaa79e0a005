// Byte-level BPE of tokenizer.json: the ids are Hugging Face's, and no text becomes a marker.
#include <gtest/gtest.h>

#include "text/byte_level.h"
#include "text/chat.h"
#include "text/tokenizer_json.h"
#include "tokenizer_files.h"

namespace sluice::text {
namespace {

using Ids = std::vector<std::int32_t>;
using Special = Tokenizer::Special;

class ByteLevel : public ::testing::TestWithParam<const char*> {};

TEST_P(ByteLevel, IdsOfSixScriptsCodeAndEmojiAreHuggingFaces) {
  const auto made = parse_tokenizer(GetParam());
  ASSERT_TRUE(made) << made.error().message;
  const std::string text = tokenizers_file("text.txt");
  const Json golden = parse_json(tokenizers_file("ids.json"), "ids.json", ErrorKind::usage).value();
  const auto expected = golden[GetParam()].get<Ids>();
  const auto ids = made->encode(text, Special::as_text);
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_EQ(*ids, expected);
  EXPECT_EQ(made->encode(text, Special::as_control).value(), expected);
}

TEST_P(ByteLevel, TextComesBack) {
  const auto made = parse_tokenizer(GetParam());
  ASSERT_TRUE(made) << made.error().message;
  const std::string text = "Über den Fluß: ১২ 🙂  \n\n\tend ";
  EXPECT_EQ(made->decode(made->encode(text, Special::as_text).value()), text);
}

TEST_P(ByteLevel, NoTextBecomesAMarker) {
  const auto made = parse_tokenizer(GetParam());
  ASSERT_TRUE(made) << made.error().message;
  for (const std::string& text :
       {std::string("<|start|>"), std::string("a<|end|>b"), tokenizers_file("text.txt"),
        std::string("<|start|><|end|> <|unused_token_1|>")}) {
    const Ids ids = made->encode(text, Special::as_text).value();
    for (const std::int32_t id : ids) {
      EXPECT_FALSE(made->is_special(id)) << text;
    }
  }
  EXPECT_EQ(made->encode("<|start|>", Special::as_control).value(), Ids{0});
  EXPECT_EQ(made->special_id("<|end|>"), 1);
  EXPECT_TRUE(made->is_special(1));
}

TEST_P(ByteLevel, LongRunsTakeLittleTime) {
  const auto made = parse_tokenizer(GetParam());
  ASSERT_TRUE(made) << made.error().message;
  for (const char* unit : {"a", " ", "\n", "1", "=", "\xE6\xB1\x89", "ab", " \n"}) {
    std::string text;
    while (text.size() < 200'000) text += unit;
    const auto ids = made->encode(text, Special::as_text);
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_EQ(made->decode(*ids), text);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ByteLevel,
                         ::testing::Values("gpt2", "smollm", "llama3", "qwen2", "tekken",
                                           "deepseek"),
                         [](const auto& test) { return std::string(test.param); });

TEST(ByteLevelFiles, APrefixComesBeforePrompts) {
  EXPECT_EQ(parse_tokenizer("gpt2")->encode_prompt("a").value(),
            parse_tokenizer("gpt2")->encode("a", Special::as_text).value());
  const auto llama = parse_tokenizer("llama3");
  Ids expected = llama->encode("a", Special::as_text).value();
  expected.insert(expected.begin(), 0);
  EXPECT_EQ(llama->encode_prompt("a").value(), expected);
}

TEST(ByteLevelFiles, DecomposedTextIsComposedWhereTheModelDoes) {
  const std::string composed = "caf\xC3\xA9";
  const std::string decomposed = "cafe\xCC\x81";
  const auto qwen = parse_tokenizer("qwen2");
  EXPECT_EQ(qwen->encode(composed, Special::as_text).value(),
            qwen->encode(decomposed, Special::as_text).value());
  const auto gpt2 = parse_tokenizer("gpt2");
  EXPECT_NE(gpt2->encode(composed, Special::as_text).value(),
            gpt2->encode(decomposed, Special::as_text).value());
}

TEST(ByteLevelFiles, TheAlphabetHas256Characters) {
  EXPECT_EQ(from_byte_level("\xC4\xA0the").value(), " the");
  EXPECT_EQ(from_byte_level("\xC4\x8A").value(), "\n");
  EXPECT_EQ(from_byte_level("\xC2\xAD"), std::nullopt);  // U+00AD stands for nothing
  EXPECT_EQ(from_byte_level(" "), std::nullopt);
  EXPECT_EQ(from_byte_level("\xE6\xB1\x89"), std::nullopt);
}

TEST(ByteLevelFiles, ATextWithAByteThatTheModelHasNoTokenForIsRefused) {
  std::string text = tokenizers_file("gpt2.json");
  const std::string bell = "\"\xC4\x87\":";  // what stands for byte 7
  const std::size_t at = text.find(bell);
  ASSERT_NE(at, std::string::npos);
  text.erase(at, text.find(',', at) + 1 - at);
  const auto made = parse_tokenizer_json(text, {}, "t.json");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(made->encode("no bell", Special::as_text));
  const auto refused = made->encode("a bell \a", Special::as_text);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_NE(refused.error().message.find("byte 0x07 at offset 7"), std::string::npos)
      << refused.error().message;
}

std::string without(std::string text, std::string_view part, std::string_view instead = "") {
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), instead);
}

TEST(ByteLevelFiles, WhatIsWrongOrNotSupportedIsNamed) {
  const std::string good = tokenizers_file("gpt2.json");
  const auto message = [](const std::string& text) {
    const auto made = parse_tokenizer_json(text, {}, "t.json");
    EXPECT_FALSE(made);
    if (made) return std::string();
    EXPECT_EQ(made.error().kind, ErrorKind::model_files);
    return made.error().message;
  };
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, good.size() / 2, good.size() - 2}) {
    EXPECT_NE(message(good.substr(0, size)).find("t.json: not a JSON object"), std::string::npos);
  }
  EXPECT_NE(message(without(good, "\"type\":\"BPE\"", "\"type\":\"Unigram\"")).find("Unigram"),
            std::string::npos);
  EXPECT_NE(message(without(good, "\"byte_fallback\":false", "\"byte_fallback\":true"))
                .find("byte_fallback"),
            std::string::npos);
  EXPECT_NE(message(without(good, "\"normalizer\":null", "\"normalizer\":{\"type\":\"Lowercase\"}"))
                .find("Lowercase"),
            std::string::npos);
  EXPECT_NE(message(without(good, "\"pre_tokenizer\":{\"type\":\"ByteLevel\"",
                            "\"pre_tokenizer\":{\"type\":\"UnicodeScripts\""))
                .find("UnicodeScripts"),
            std::string::npos);
  EXPECT_NE(message(without(good, "\"!\":", "\"\xE6\xB1\x89\":")).find("byte-level alphabet"),
            std::string::npos);
  EXPECT_NE(
      message(without(good, "\"merges\":[", "\"merges\":[[\"qqq\",\"qqq\"],")).find("merge 0"),
      std::string::npos);
  EXPECT_NE(message(without(good, "\"merges\":[", "\"merges\":[7,")).find("model.merges"),
            std::string::npos);
  EXPECT_NE(message(without(good, "\"!\":2", "\"!\":-2")).find("model.vocab"), std::string::npos);
}

TEST(ChatMl, ConversationsAreWrittenWithItsMarkers) {
  const ChatFormat plain(ChatFormat::Kind::chatml);
  const auto text = [](const ChatFormat& format, const ChatRequest& request) {
    std::string all;
    const std::vector<Segment> segments = format.render(request).value();
    for (const Segment& segment : segments) {
      EXPECT_FALSE(segment.text.empty());
      EXPECT_EQ(segment.control, segment.text.starts_with("<|im_")) << segment.text;
      all += segment.text;
    }
    return all;
  };
  ChatRequest request;
  const ChatTurn turns[] = {{"user", "Hi"}, {"assistant", "Hello"}, {"user", "Bye"}};
  request.messages = messages_of(turns);
  const std::string conversation =
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n"
      "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(text(plain, request), conversation);
  const ChatTurn system = {"system", "Be brief."};
  request.messages = messages_of({&system, 1});
  request.generation_prompt = false;
  EXPECT_EQ(text(plain, request), "<|im_start|>system\nBe brief.<|im_end|>\n");
  request.tools = Json::array({Json::object()});
  EXPECT_EQ(plain.render(request).error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace sluice::text
