#include "text/split.h"

#include <gtest/gtest.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "golden.h"
#include "text/safety_cuts.h"
#include "text/utf8.h"

namespace sluice::text {
namespace {

std::vector<std::string> pieces_of(std::string_view text) {
  static const Splitter splitter = Splitter::create().value();
  std::vector<std::string> pieces;
  const Status status =
      splitter.split(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  EXPECT_TRUE(status) << status.error().message;
  return pieces;
}

// The expression as published, with `&&` written as a lookahead and no other change.
std::vector<std::string> published_pieces_of(const std::string& text) {
#define HAN "[\\p{sc:Han}\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}]"
#define LETTER "\\p{L}\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}"
#define UPPER "(?:(?!" HAN ")[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}])"
#define LOWER "(?:(?!" HAN ")[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}])"
#define TAIL "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define WHITE                                                                                      \
  "\\x09-\\x0D\\x20\\x85\\xA0\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{" \
  "3000}"
  static const char expression[] =
      HAN "+|[^\\r\\n" LETTER "\\p{N}]?" UPPER "*" LOWER "+" TAIL "|[^\\r\\n" LETTER
          "\\p{N}]?" UPPER "+" LOWER "*" TAIL "|\\p{N}{1,3}| ?[^" WHITE LETTER
          "\\p{N}]+[\\r\\n]*|[" WHITE "]*[\\r\\n]+|[" WHITE "]+(?![^" WHITE "])|[" WHITE "]+";
  int error = 0;
  PCRE2_SIZE offset = 0;
  static pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression), PCRE2_ZERO_TERMINATED,
                    PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  static pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  std::vector<std::string> pieces;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  for (std::size_t at = 0; at < text.size();) {
    if (pcre2_match(code, subject, text.size(), at, 0, data, nullptr) < 0) break;
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data);
    EXPECT_EQ(range[0], at);
    pieces.push_back(text.substr(range[0], range[1] - range[0]));
    at = range[1];
  }
  return pieces;
}

std::string utf8(char32_t code) {
  std::string text;
  const auto byte = [&](char32_t value) { text += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6);
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
  return text;
}

TEST(Split, CutsTheGoldenTextsAsTheReferenceDoes) {
  const Json all = golden("golden.json");
  ASSERT_EQ(all["texts"].size(), 667u);
  for (const Json& row : all["texts"]) {
    std::vector<std::size_t> sizes;
    for (const std::string& piece : pieces_of(row["text"].get<std::string>()))
      sizes.push_back(piece.size());
    EXPECT_EQ(sizes, row["pieces"].get<std::vector<std::size_t>>()) << row["text"];
  }
}

TEST(Split, MeansWhatThePublishedExpressionMeans) {
  Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = random_text(random, 12);
    ASSERT_EQ(pieces_of(text), published_pieces_of(text)) << text;
  }
}

TEST(Split, ShowsThePartsThatAreEasyToGetWrong) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces_of("漢字かな交じり"), (Pieces{"漢字", "かな", "交", "じり"}));
  EXPECT_EQ(pieces_of("a々〇⺀b"), (Pieces{"a", "々〇⺀", "b"}));
  EXPECT_EQ(pieces_of("、ー"), (Pieces{"、ー"}));  // Script Extensions would take both for Han
  EXPECT_EQ(pieces_of("ABCא ABC"), (Pieces{"ABCא", " ABC"}));
  EXPECT_EQ(pieces_of("ABCאDE"), (Pieces{"ABCא", "DE"}));
  EXPECT_EQ(pieces_of("IT'S it'\u017f don't"), (Pieces{"IT'S", " it'\u017f", " don't"}));
  EXPECT_EQ(pieces_of("12345"), (Pieces{"123", "45"}));
  EXPECT_EQ(pieces_of("  \n \n x"), (Pieces{"  \n \n", " x"}));
  EXPECT_EQ(pieces_of("x   y  "), (Pieces{"x", "  ", " y", "  "}));
  EXPECT_EQ(pieces_of("}\n///"), (Pieces{"}\n", "///"}));
  EXPECT_EQ(pieces_of(" \x1c a"), (Pieces{" \x1c", " a"}));    // not white space
  EXPECT_EQ(pieces_of("a\u0085b"), (Pieces{"a", "\u0085b"}));  // white space
  EXPECT_EQ(pieces_of("!\U00031350\U000323AFx"), (Pieces{"!", "\U00031350\U000323AF", "x"}));
}

TEST(Split, WhiteSpaceIsUnicodesAndNoOther) {
  // Only of white space does a run before a number leave its last character behind.
  for (char32_t code = 1; code < 0x4000; ++code) {
    if (code == '\n' || code == '\r') continue;
    std::string text = "1";
    text += utf8(code) + utf8(code);
    text += "1";
    EXPECT_EQ(pieces_of(text).size() == 4, is_white_space(code))
        << std::hex << static_cast<std::uint32_t>(code);
  }
}

TEST(Split, HanIsTheScriptPropertyOfUnicode15_1) {
  // Scripts.txt, Script=Han; gaps of unassigned code points between the blocks are left out.
  const std::vector<std::pair<char32_t, char32_t>> han = {
      {0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},
      {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},
      {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},   {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3},
      {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B739}, {0x2B740, 0x2B81D},
      {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2EBF0, 0x2EE5D}, {0x2F800, 0x2FA1D},
      {0x30000, 0x3134A}, {0x31350, 0x323AF}};
  std::string all;
  for (const auto& [first, last] : han) {
    for (char32_t code = first; code <= last; ++code) all += utf8(code);
    EXPECT_NE(pieces_of("漢" + utf8(first - 1)).size() == 1,
              pieces_of("漢" + utf8(first)).size() == 1);
    EXPECT_EQ(pieces_of("漢" + utf8(last)).size(), 1u);
  }
  EXPECT_EQ(pieces_of(all).size(), 1u);
  EXPECT_EQ(pieces_of("漢\u30fc").size(), 2u);
  EXPECT_EQ(pieces_of("漢\u3001").size(), 2u);
}

std::vector<std::size_t> cuts_of(const std::string& text) {
  SafetyCuts cuts(text);
  std::vector<std::size_t> sizes;
  std::string joined;
  while (const auto slice = cuts.next()) {
    EXPECT_FALSE(slice->empty());
    sizes.push_back(slice->size());
    joined += *slice;
  }
  EXPECT_EQ(joined, text);
  return sizes;
}

// The rule as SPEC 9.4 has it, on code points.
std::vector<std::size_t> expected_cuts_of(const std::vector<bool>& white) {
  std::vector<std::size_t> sizes;
  for (std::size_t a = 0; a < white.size(); a += 400'000) {
    const std::size_t end = std::min(a + 400'000, white.size());
    std::size_t begin = a;
    std::size_t length = 0;
    bool space = white[a];
    for (std::size_t i = a; i < end; ++i) {
      length = white[i] == space ? length + 1 : 1;
      space = white[i];
      if (length > 25'000) {
        sizes.push_back(i - begin);
        begin = i;
        length = 1;
      }
    }
    sizes.push_back(end - begin);
  }
  return sizes;
}

TEST(SafetyCuts, CutLongRunsAndLongTexts) {
  using Sizes = std::vector<std::size_t>;
  EXPECT_EQ(cuts_of(""), Sizes{});
  EXPECT_EQ(cuts_of(std::string(25'000, 'a')), Sizes{25'000});
  EXPECT_EQ(cuts_of(std::string(25'001, 'a')), (Sizes{25'000, 1}));
  EXPECT_EQ(cuts_of(std::string(400'000, ' ')), Sizes(16, 25'000));
  std::string three;
  for (int i = 0; i < 25'001; ++i) three += "漢";
  EXPECT_EQ(cuts_of(three), (Sizes{75'000, 3}));
  EXPECT_EQ(cuts_of(std::string(25'000, ' ') + "\x1c"), (Sizes{25'000, 1}));
  EXPECT_EQ(cuts_of(std::string(20'000, 'a') + " " + std::string(25'000, 'a')), Sizes{45'001});
}

TEST(SafetyCuts, FollowTheRuleOnRandomRuns) {
  Random random(2);
  for (int round = 0; round < 12; ++round) {
    std::string text;
    std::vector<bool> white;
    const std::size_t lengths[] = {1, 7, 24'999, 25'000, 25'001, 50'000, 60'003};
    while (text.size() < 900'000) {
      const bool space = random.below(2) == 0;
      const std::size_t run = lengths[random.below(round % 2 == 0 ? 7 : 4)];
      text += std::string(run, space ? ' ' : 'x');
      white.insert(white.end(), run, space);
    }
    ASSERT_EQ(cuts_of(text), expected_cuts_of(white));
  }
}

}  // namespace
}  // namespace sluice::text
