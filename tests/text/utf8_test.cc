#include "text/utf8.h"

#include <gtest/gtest.h>

#include "golden.h"

namespace sluice::text {
namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

TEST(Utf8, ReplacesBrokenBytesAsPythonDoesHoweverTheyAreCut) {
  const Json table = golden("python.json");
  ASSERT_GT(table["utf8"].size(), 400u);
  for (const Json& row : table["utf8"]) {
    const std::string bytes = from_hex(row["hex"].get<std::string>());
    const std::string expected = row["text"].get<std::string>();
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
      Utf8Stream stream;
      std::string text = stream.push(bytes.substr(0, cut));
      text += stream.push(bytes.substr(cut));
      EXPECT_EQ(text + stream.finish(), expected) << row["hex"] << " cut at " << cut;
    }
    Utf8Stream stream;
    std::string text;
    for (const char byte : bytes) text += stream.push({&byte, 1});
    EXPECT_EQ(text + stream.finish(), expected) << row["hex"];
  }
}

TEST(Utf8, HoldsBackNothingThatIsComplete) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.push("\x99\x82z"), "🙂z");
  EXPECT_EQ(stream.push("\xE2\x82"), "");
  EXPECT_EQ(stream.push("!"), "\uFFFD!");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_FALSE(first_invalid_utf8(""));
  EXPECT_FALSE(first_invalid_utf8("aé漢🙂"));
  EXPECT_EQ(first_invalid_utf8("ab\xC3"), 2u);
  EXPECT_EQ(first_invalid_utf8("a\xED\xA0\x80"), 1u);
  EXPECT_EQ(first_invalid_utf8("é\x80"), 2u);
}

TEST(Utf8, BlankIsWhatPythonStrips) {
  EXPECT_TRUE(is_blank(""));
  EXPECT_TRUE(is_blank(" \t\n\r\x0b\x0c\x1c\x1f\u0085\u00a0\u3000\u2003"));
  EXPECT_FALSE(is_blank(" x "));
  EXPECT_FALSE(is_blank("\u200b"));
  EXPECT_FALSE(is_blank("\u180e"));
}

}  // namespace
}  // namespace sluice::text
