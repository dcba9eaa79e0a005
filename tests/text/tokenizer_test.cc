#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "golden.h"
#include "text/detokenizer.h"
#include "text/stop_ids.h"
#include "text/utf8.h"

namespace sluice::text {
namespace {

using Special = Tokenizer::Special;
using Ids = std::vector<std::int32_t>;

std::string repeat(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

Ids encode(std::string_view text, Special special = Special::as_text) {
  return golden_tokenizer().encode(text, special).value();
}

TEST(Tokenizer, EncodesTheGoldenTexts) {
  const Json all = golden("golden.json");
  for (const Json& row : all["texts"]) {
    const auto text = row["text"].get<std::string>();
    const Ids ordinary = ids_of(row["ordinary"]);
    const Ids special = row["special"].is_null() ? ordinary : ids_of(row["special"]);
    EXPECT_EQ(encode(text), ordinary) << text;
    EXPECT_EQ(encode(text, Special::as_control), special) << text;
    EXPECT_EQ(golden_tokenizer().decode(ordinary), text);
    EXPECT_EQ(golden_tokenizer().decode(special), text);
  }
}

TEST(Tokenizer, EncodesTheLongGoldens) {
  const std::vector<std::string> texts = {repeat("a", 25'001), repeat(" ", 25'001),
                                          repeat("abcdefg", 4'000), repeat("a ", 200'000) + "b",
                                          repeat("汉", 30'000)};
  const Json rows = golden("golden.json")["long"];
  ASSERT_EQ(rows.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Ids ids = encode(texts[i]);
    EXPECT_EQ(ids.size(), rows[i]["count"].get<std::size_t>()) << rows[i]["text_is"];
    EXPECT_EQ(fmt::format("{:016x}", fnv1a({ids.begin(), ids.end()})),
              rows[i]["fnv1a64"].get<std::string>());
  }
}

TEST(Tokenizer, OfTheBundledModelEncodesItsPromptsAndDecodesItsAnswers) {
  const auto source = std::filesystem::path(SLUICE_SOURCE_DIR);
  const Tokenizer tokenizer = Tokenizer::load(source / "models/k3-nano").value();
  const std::string text =
      read_small_file(source / "tests/golden/k3-nano/golden.json", std::uint64_t{1} << 24).value();
  const Json all = parse_json(text, "golden.json", ErrorKind::usage).value();
  ASSERT_GE(all["prompts"].size(), 10u);
  for (const Json& prompt : all["prompts"]) {
    const auto words = prompt["text"].get<std::string>();
    EXPECT_EQ(tokenizer.encode(words, Special::as_text).value(), ids_of(prompt["tokens"]));
    EXPECT_EQ(tokenizer.decode(ids_of(prompt["tokens"])), words);
    EXPECT_EQ(tokenizer.decode(ids_of(prompt["greedy"])), prompt["greedy_text"].get<std::string>());
  }
  for (const Json& text_row : all["held_out"]) {
    const Ids ids = ids_of(text_row["tokens"]);
    EXPECT_EQ(tokenizer.encode(tokenizer.decode(ids), Special::as_control).value(), ids);
  }
}

TEST(Tokenizer, TakesLongOneLineTextsOfAnyKind) {
  for (const char* unit :
       {"a", "A", "Aא", " ", "\n", " \n", "!", "1", "漢", "\u0301", "'s", "<", "🙂", "[EO"}) {
    const std::string text = repeat(unit, 250'000 / std::string_view(unit).size());
    for (const Special special : {Special::as_text, Special::as_control}) {
      EXPECT_EQ(golden_tokenizer().decode(encode(text, special)), text) << unit;
    }
  }
}

TEST(Tokenizer, OrdinaryTextNeverYieldsControlTokens) {
  const Tokenizer& tokenizer = golden_tokenizer();
  std::string all;
  for (std::size_t id = 0; id < tokenizer.vocabulary(); ++id) {
    const auto name = tokenizer.bytes_of(static_cast<std::int32_t>(id));
    if (!tokenizer.is_special(static_cast<std::int32_t>(id))) continue;
    all += name;
    EXPECT_TRUE(std::ranges::none_of(encode(name), [&](auto i) { return tokenizer.is_special(i); }))
        << name;
    EXPECT_EQ(encode(name, Special::as_control), Ids{static_cast<std::int32_t>(id)});
  }
  EXPECT_EQ(encode(all, Special::as_control).size(), Tokenizer::kSpecials);
  EXPECT_TRUE(std::ranges::none_of(encode(all), [&](auto id) { return tokenizer.is_special(id); }));
}

TEST(Tokenizer, RoundTripsRandomTextWithAndWithoutControl) {
  const Tokenizer& tokenizer = golden_tokenizer();
  Random random(3);
  std::size_t controls = 0;
  for (int i = 0; i < 5'000; ++i) {
    const std::string text = random_text(random, 30);
    const Ids plain = encode(text);
    const Ids control = encode(text, Special::as_control);
    ASSERT_EQ(tokenizer.decode(plain), text);
    ASSERT_EQ(tokenizer.decode(control), text);
    ASSERT_TRUE(std::ranges::none_of(plain, [&](auto id) { return tokenizer.is_special(id); }))
        << text;
    controls += static_cast<std::size_t>(
        std::ranges::count_if(control, [&](auto id) { return tokenizer.is_special(id); }));
  }
  EXPECT_GT(controls, 1'000u);
}

TEST(Tokenizer, KnowsItsSpecialTokens) {
  const Tokenizer& tokenizer = golden_tokenizer();
  EXPECT_EQ(tokenizer.vocabulary(), 1456u);
  EXPECT_EQ(tokenizer.special_id("[BOS]"), 1200);
  EXPECT_EQ(tokenizer.special_id("<|end_of_msg|>"), 1202);
  EXPECT_EQ(tokenizer.special_id("<|reserved_token_1208|>"), 1208);
  EXPECT_EQ(tokenizer.special_id("<|reserved_token_1200|>"), std::nullopt);
  EXPECT_EQ(tokenizer.special_id("the"), std::nullopt);
  EXPECT_EQ(tokenizer.bytes_of(1455), "[PAD]");
  EXPECT_EQ(tokenizer.bytes_of(220), " ");
  EXPECT_EQ(tokenizer.bytes_of(-1), "");
  EXPECT_EQ(tokenizer.bytes_of(1456), "");
  EXPECT_FALSE(tokenizer.is_special(1199));
  EXPECT_TRUE(tokenizer.is_special(1200));
  EXPECT_TRUE(tokenizer.is_special(1455));
  EXPECT_FALSE(tokenizer.is_special(1456));
  EXPECT_FALSE(tokenizer.is_special(-1));
  EXPECT_EQ(k2_tokenizer().special_id("<|im_end|>"), 258);
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8AndNamesThePlace) {
  const auto ids = golden_tokenizer().encode("caf\xE9 au lait", Special::as_text);
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().kind, ErrorKind::usage);
  EXPECT_NE(ids.error().message.find("0xE9 at offset 3"), std::string::npos) << ids.error().message;
}

TEST(Detokenizer, AnyCutGivesTheWholeText) {
  const Tokenizer& tokenizer = golden_tokenizer();
  Random random(4);
  for (int i = 0; i < 2'000; ++i) {
    Ids ids;
    for (std::size_t n = random.below(12); n > 0; --n) {
      ids.push_back(
          static_cast<std::int32_t>(random.below(random.below(2) ? 256 : tokenizer.vocabulary())));
    }
    Detokenizer detokenizer(tokenizer);
    std::string text;
    for (const std::int32_t id : ids) {
      text += detokenizer.push(id);
      ASSERT_FALSE(first_invalid_utf8(text));
    }
    ASSERT_EQ(text + detokenizer.finish(), tokenizer.decode(ids));
  }
}

TEST(Detokenizer, HoldsBackAnUnfinishedCharacter) {
  const Tokenizer& tokenizer = k2_tokenizer();  // bytes only: 🙂 is four tokens
  const Ids ids = tokenizer.encode("🙂", Special::as_text).value();
  ASSERT_EQ(ids.size(), 4u);
  Detokenizer detokenizer(tokenizer);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(detokenizer.push(ids[static_cast<std::size_t>(i)]), "");
  EXPECT_EQ(detokenizer.push(ids[3]), "🙂");
  EXPECT_EQ(detokenizer.push(ids[0]), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.push(999'999), "");
}

TEST(StopIds, AreTheNamedOnesAndTheConfiguredOnes) {
  EXPECT_EQ(stop_ids(golden_tokenizer(), golden_folder()).value(), (Ids{1201, 1202}));
  EXPECT_EQ(stop_ids(k2_tokenizer(), golden_folder() / "k2").value(), (Ids{257, 258}));
  EXPECT_EQ(stop_ids(k2_tokenizer(), "/nonexistent").value(), (Ids{257, 258}));
  // Of another tokenizer: 1202 is no id of this one.
  EXPECT_EQ(stop_ids(k2_tokenizer(), golden_folder()).error().kind, ErrorKind::model_files);
}

}  // namespace
}  // namespace sluice::text
