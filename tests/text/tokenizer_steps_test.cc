// The steps around a vocabulary, and vocabularies of characters: ids are those of Hugging Face's
// tokenizers for the same tokenizer.json.
#include <gtest/gtest.h>

#include <optional>

#include "text/json.h"
#include "text/pre_tokenizers.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"
#include "tokenizer_files.h"

namespace sluice::text {
namespace {

using Ids = std::vector<std::int32_t>;
using Special = Tokenizer::Special;

Tokenizer tokenizer_of(const std::string& kind, ChatFiles chat = {}) {
  auto made = parse_tokenizer(kind, std::move(chat));
  EXPECT_TRUE(made) << made.error().message;
  return std::move(*made);
}

Ids ids_of_text(const std::string& kind) {
  return parse_json(tokenizers_file("ids.json"), "ids.json", ErrorKind::usage)
      .value()[kind]
      .get<Ids>();
}

class Steps : public ::testing::TestWithParam<const char*> {};

TEST_P(Steps, IdsOfSixScriptsCodeAndEmojiAreHuggingFaces) {
  EXPECT_EQ(tokenizer_of(GetParam()).encode(tokenizers_file("text.txt"), Special::as_text).value(),
            ids_of_text(GetParam()));
}

TEST_P(Steps, NoTokenStandsForMoreOfATextThanTheLongest) {
  const auto longest = tokenizer_of(GetParam()).longest_token();
  if (longest) {
    EXPECT_LE(tokenizers_file("text.txt").size(), *longest * ids_of_text(GetParam()).size());
  }
}

TEST(Normalizer, KnowsHowMuchShorterATextMayBecome) {
  Normalizer normalizer;
  EXPECT_EQ(normalizer.most_shrinking(), 1u);
  normalizer.add(Normalizer::Prepend{" "});
  normalizer.add(Normalizer::Replace{" ", "\xE2\x96\x81"});
  EXPECT_EQ(normalizer.most_shrinking(), 1u);
  normalizer.add(Normalizer::Replace{"four", "4"});
  EXPECT_EQ(normalizer.most_shrinking(), 4u);
  normalizer.add(Normalizer::Replace{"x", ""});
  EXPECT_EQ(normalizer.most_shrinking(), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Steps,
                         ::testing::Values("steps", "words", "signs", "prefixed", "metaspace"),
                         [](const auto& test) { return std::string(test.param); });

class Characters : public ::testing::TestWithParam<const char*> {};

TEST_P(Characters, IdsOfSixScriptsCodeAndEmojiAreHuggingFacesAndTextComesBack) {
  const Tokenizer made = tokenizer_of(GetParam());
  const Ids ids = made.encode(tokenizers_file("text.txt"), Special::as_text).value();
  EXPECT_EQ(ids, ids_of_text(GetParam()));
  EXPECT_EQ(made.decode(ids), tokenizers_file("text.txt"));
}

TEST_P(Characters, ControlTokensCannotBeTyped) {
  const Tokenizer made = tokenizer_of(GetParam());
  for (const std::string text : {"<s>", "</s>", "a <unk> b", "<0x41>", "x</s><s>y"}) {
    const Ids ids = made.encode(text, Special::as_text).value();
    for (const std::int32_t id : ids) EXPECT_FALSE(made.is_special(id)) << text;
    EXPECT_EQ(made.decode(ids), text);
  }
  EXPECT_EQ(made.encode("</s>", Special::as_control).value(), Ids{2});
}

TEST_P(Characters, LongRunsTakeLittleTime) {
  const Tokenizer made = tokenizer_of(GetParam());
  for (const char* unit : {"a", " ", "\n", "\xE6\xB1\x89", "\xF0\x9F\x99\x82", " \n"}) {
    std::string text = "x";  // of spaces at the start one may be taken for the model's own
    while (text.size() < 200'000) text += unit;
    const bool same = made.decode(made.encode(text, Special::as_text).value()) == text;
    EXPECT_TRUE(same) << unit;  // not both texts: their comparison takes all memory
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Characters, ::testing::Values("llama2", "mistral", "gemma"),
                         [](const auto& test) { return std::string(test.param); });

TEST(CharacterTokenizers, CharactersWithoutATokenAreWrittenInBytes) {
  const Tokenizer made = tokenizer_of("gemma");
  const Ids ids = made.encode("\xF0\x9D\x92\x9C", Special::as_text).value();
  ASSERT_EQ(ids.size(), 4u);
  EXPECT_EQ(made.bytes_of(ids[0]), "\xF0");
  EXPECT_EQ(made.decode(ids), "\xF0\x9D\x92\x9C");
  EXPECT_EQ(made.decode(std::span(ids).first(3)), kReplacement);
}

TEST(CharacterTokenizers, WithoutBytesTheyAreOneUnknownToken) {
  const Tokenizer made = tokenizer_of("metaspace");
  const Ids ids = made.encode("\xF0\x9D\x92\x9C\xF0\x9D\x92\x9D", Special::as_text).value();
  EXPECT_EQ(std::ranges::count(ids, 0), 1);
}

TEST(Expressions, WordsAreRefusedSinceLibrariesDifferInThem) {
  for (const std::string escape : {"\\w", "\\W", "\\b"}) {
    std::string text = tokenizers_file("signs.json");
    const std::string letters = R"([\\p{L}\\p{M}\\p{Pc}]+)";
    ASSERT_NE(text.find(letters), std::string::npos);
    text.replace(text.find(letters), letters.size(), "\\" + escape + "+");
    const auto refused = parse_tokenizer_json(text, {}, "t.json");
    ASSERT_FALSE(refused) << escape;
    EXPECT_NE(refused.error().message.find(escape), std::string::npos) << refused.error().message;
  }
}

TEST(CharacterTokenizers, WithNeitherTheTextIsRefused) {
  std::string text = tokenizers_file("metaspace.json");
  const std::string unknown = "\"unk_token\":\"<unk>\"";
  text.replace(text.find(unknown), unknown.size(), "\"unk_token\":null");
  const auto made = parse_tokenizer_json(text, {}, "t.json");
  ASSERT_TRUE(made) << made.error().message;
  const auto refused = made->encode("abc \xF0\x9D\x92\x9C", Special::as_text);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_NE(refused.error().message.find("0xF0"), std::string::npos) << refused.error().message;
}

TEST(CharacterTokenizers, TheSpaceBeforeATextIsPutWhereTheModelPutsIt) {
  const auto begins_with_space = [](const Tokenizer& made, const Ids& ids) {
    return made.bytes_of(ids.at(0)).starts_with(' ');
  };
  const Tokenizer llama = tokenizer_of("llama2");
  const Tokenizer mistral = tokenizer_of("mistral");
  const Tokenizer gemma = tokenizer_of("gemma");
  EXPECT_TRUE(begins_with_space(llama, llama.encode("a", Special::as_text).value()));
  EXPECT_TRUE(begins_with_space(llama, llama.encode("a", Special::as_text, false).value()));
  EXPECT_TRUE(begins_with_space(mistral, mistral.encode("a", Special::as_text).value()));
  EXPECT_FALSE(begins_with_space(mistral, mistral.encode("a", Special::as_text, false).value()));
  EXPECT_FALSE(begins_with_space(gemma, gemma.encode("a", Special::as_text).value()));
  EXPECT_EQ(llama.decode(llama.encode(" a", Special::as_text).value()), " a");
  EXPECT_EQ(llama.piece(llama.encode("the", Special::as_text).value()[0]).substr(0, 1), " ");
}

TEST(NamedTokens, AreFoundInTextUnlessTheTemplateWritesThem) {
  const Tokenizer plain = tokenizer_of("gemma");
  const std::int32_t heading = *plain.special_id("<h1>");
  EXPECT_EQ(plain.encode("<h1>", Special::as_text).value(), Ids{heading});
  EXPECT_FALSE(plain.is_special(heading));
  EXPECT_FALSE(plain.is_control(heading));

  ChatFiles chat;
  chat.chat_template = "{% for m in messages %}<h1>{{ m.content }}\n\n{% endfor %}";
  const Tokenizer marked = tokenizer_of("gemma", chat);
  EXPECT_GT(marked.encode("<h1>", Special::as_text).value().size(), 1u);
  EXPECT_EQ(marked.encode("<h1>", Special::as_control).value(), Ids{heading});
  EXPECT_TRUE(marked.is_control(heading));
  const std::int32_t lines = *marked.special_id("\n\n");  // white space marks nothing
  EXPECT_EQ(marked.encode("\n\n", Special::as_text).value(), Ids{lines});
}

TEST(NamedTokens, OfTheFormOfAMarkerAreNeverText) {
  std::string text = tokenizers_file("gemma.json");
  for (const std::string name : {"<|h1|>", "<\uFF5Ch1\uFF5C>"}) {
    std::string changed = text;
    for (std::size_t at = 0; (at = changed.find("\"<h1>\"", at)) != std::string::npos;) {
      changed.replace(at, 6, "\"" + name + "\"");
    }
    const auto made = parse_tokenizer_json(changed, {}, "t.json");
    ASSERT_TRUE(made) << made.error().message;
    const Ids ids = made->encode(name, Special::as_text).value();
    EXPECT_EQ(std::ranges::count(ids, *made->special_id(name)), 0);
    EXPECT_EQ(made->decode(ids), name);
  }
}

TEST(StepsThatAreNotKnown, AreRefusedByName) {
  const std::string good = tokenizers_file("steps.json");
  const auto message = [&](std::string_view part, std::string_view instead) {
    std::string text = good;
    const std::size_t at = text.find(part);
    EXPECT_NE(at, std::string::npos) << part;
    const auto made = parse_tokenizer_json(text.replace(at, part.size(), instead), {}, "t.json");
    return made ? std::string("accepted") : made.error().message;
  };
  EXPECT_NE(message("{\"type\":\"NFKC\"}", "{\"type\":\"StripAccents\"}").find("StripAccents"),
            std::string::npos);
  EXPECT_NE(
      message("\"type\":\"Punctuation\"", "\"type\":\"UnicodeScripts\"").find("UnicodeScripts"),
      std::string::npos);
  EXPECT_NE(message("\"MergedWithNext\"", "\"Sideways\"").find("Sideways"), std::string::npos);
  EXPECT_NE(message("[aeiou]", "[aeiou").find("cannot be compiled"), std::string::npos);
  EXPECT_NE(
      message("\"decoder\":{\"type\":\"ByteLevel\"", "\"decoder\":{\"type\":\"CTC\"").find("CTC"),
      std::string::npos);
}

TEST(PreTokenizerNames, AreAllCompiledAndUnknownOnesRefused) {
  for (const char* name :
       {"gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35", "gpt-4o", "tekken", "deepseek-v3",
        "deepseek-llm", "deepseek-coder", "seed-coder", "bailingmoe", "falcon", "bloom", "default",
        "starcoder", "llama4", "glm4"}) {
    const auto made = pre_tokenizer_named(name, "m.gguf");
    ASSERT_TRUE(made) << name;
    const auto splitter = Splitter::create(made->cuts, "m.gguf");
    ASSERT_TRUE(splitter) << name << ": " << splitter.error().message;
    std::string joined;
    EXPECT_TRUE(splitter->split(tokenizers_file("text.txt"),
                                [&](std::string_view piece) { joined += piece; }));
    EXPECT_EQ(joined, tokenizers_file("text.txt")) << name;
  }
  EXPECT_TRUE(pre_tokenizer_named("kimi-k2", "m.gguf")->kimi);
  for (const char* name : {"superbpe", "", " ", "gpt-2 smollm", "qwen"}) {
    const auto refused = pre_tokenizer_named(name, "m.gguf");
    ASSERT_FALSE(refused) << name;
    EXPECT_NE(refused.error().message.find(fmt::format("'{}'", name)), std::string::npos);
  }
}

}  // namespace
}  // namespace sluice::text
