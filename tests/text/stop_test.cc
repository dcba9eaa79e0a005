#include "text/stop.h"

#include <gtest/gtest.h>

#include "golden.h"

namespace sluice::text {
namespace {

using Stops = std::vector<std::string>;

// What is handed on when the text comes in these pieces.
std::string passed(const Stops& stops, const std::vector<std::string>& pieces,
                   bool* stopped = nullptr) {
  StopMatcher matcher = StopMatcher::create(stops).value();
  std::string text;
  bool stop = false;
  for (const std::string& piece : pieces) {
    const auto result = matcher.push(piece);
    EXPECT_TRUE(result.stopped || !stop);
    text += result.text;
    stop = result.stopped;
  }
  text += matcher.finish();
  if (stopped != nullptr) *stopped = stop;
  return text;
}

TEST(StopMatcher, CutsBeforeAStopStringThatSpansPieces) {
  bool stopped = false;
  EXPECT_EQ(passed({"STOP"}, {"one S", "T", "OP two"}, &stopped), "one ");
  EXPECT_TRUE(stopped);
  EXPECT_EQ(passed({"STOP"}, {"one S", "T", "O two"}, &stopped), "one STO two");
  EXPECT_FALSE(stopped);
  EXPECT_EQ(passed({"STOP"}, {"one STO"}, &stopped), "one STO");
  EXPECT_EQ(passed({}, {"all", " of it"}), "all of it");
  EXPECT_EQ(passed({"aab"}, {"aaab"}), "a");
  EXPECT_EQ(passed({"\n\n"}, {"x\n", "\ny"}), "x");
  EXPECT_EQ(passed({"é🙂"}, {"aé", "🙂b"}), "a");
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBecomeAStop) {
  StopMatcher matcher = StopMatcher::create({"abcd", "bx"}).value();
  EXPECT_EQ(matcher.push("xyz").text, "xyz");
  EXPECT_EQ(matcher.push("zab").text, "z");
  EXPECT_EQ(matcher.push("c").text, "");
  EXPECT_EQ(matcher.push("a").text, "abc");
  EXPECT_EQ(matcher.push("q").text, "aq");
  EXPECT_EQ(matcher.push("ab").text, "");
  const auto piece = matcher.push("x more");
  EXPECT_EQ(piece.text, "a");
  EXPECT_TRUE(piece.stopped);
  EXPECT_EQ(matcher.push("bx again").text, "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, TheStopThatIsCompleteFirstCounts) {
  EXPECT_EQ(passed({"b", "abc"}, {"xabc"}), "xa");
  EXPECT_EQ(passed({"abc", "bc"}, {"xabc"}), "x");  // both end here: the longer one
  EXPECT_EQ(passed({"two", "one"}, {"zero one two"}), "zero ");
  EXPECT_EQ(passed({"stop", "stopper"}, {"a stopper"}), "a ");
}

TEST(StopMatcher, RefusesStopsThatAreNone) {
  EXPECT_EQ(StopMatcher::create({"ok", ""}).error().kind, ErrorKind::usage);
  EXPECT_EQ(StopMatcher::create({"\xC3"}).error().kind, ErrorKind::usage);
}

TEST(StopMatcher, EverySplitGivesWhatTheWholeGives) {
  Random random(8);
  const auto word = [&](std::size_t most) {
    std::string text;
    for (std::size_t n = 1 + random.below(most); n > 0; --n) text += "ab\nc"[random.below(4)];
    return text;
  };
  for (int round = 0; round < 3'000; ++round) {
    Stops stops;
    for (std::size_t n = 1 + random.below(3); n > 0; --n) stops.push_back(word(5));
    const std::string text = word(40);
    // The rule, on the whole: the first end of a stop, the longest there.
    std::size_t cut = text.size();
    bool expect_stop = false;
    for (std::size_t end = 1; end <= text.size() && !expect_stop; ++end) {
      std::size_t longest = 0;
      for (const std::string& stop : stops) {
        if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
      }
      if (longest == 0) continue;
      expect_stop = true;
      cut = end - longest;
    }
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = 1 + random.below(4);
      pieces.push_back(text.substr(at, size));
      at += size;
    }
    bool stopped = false;
    ASSERT_EQ(passed(stops, pieces, &stopped), text.substr(0, cut));
    ASSERT_EQ(stopped, expect_stop);
  }
}

}  // namespace
}  // namespace sluice::text
