#include "text/json.h"

#include <gtest/gtest.h>

#include "golden.h"
#include "small_stack.h"

namespace sluice::text {
namespace {

Result<Json> parse(std::string_view text) { return parse_json(text, "text", ErrorKind::usage); }

TEST(Json, WritesEveryValueAsPythonDoes) {
  const Json table = golden("python.json");
  ASSERT_GE(table["json"].size(), 400u);
  for (const Json& row : table["json"]) {
    const auto value = parse(row["text"].get_ref<const std::string&>());
    ASSERT_TRUE(value) << row["text"] << ": " << value.error().message;
    EXPECT_EQ(python_json(*value, JsonForm::spaced), row["spaced"].get<std::string>());
    EXPECT_EQ(python_json(*value, JsonForm::compact_sorted),
              row["compact_sorted"].get<std::string>());
  }
}

TEST(Json, IndentsAsPythonDoes) {
  EXPECT_EQ(indented_json(R"({"a": [1, "x, {\"y\"}: []"], "b": {}, "c": [], "d": {"e": null}})", 2),
            R"({
  "a": [
    1,
    "x, {\"y\"}: []"
  ],
  "b": {},
  "c": [],
  "d": {
    "e": null
  }
})");
  EXPECT_EQ(indented_json("[1, 2]", 0), "[\n1,\n2\n]");
}

TEST(Json, RefusesWhatPythonRefuses) {
  const Json table = golden("python.json");
  for (const Json& text : table["not_json"]) {
    EXPECT_FALSE(is_json(text.get_ref<const std::string&>())) << text;
  }
  EXPECT_FALSE(is_json("\xEF\xBB\xBF{}"));
  EXPECT_FALSE(is_json("\"\xFF\""));
}

TEST(Json, NamesTheTextAndThePlaceOfAFault) {
  const auto value = parse_json("{\"a\": nope}", "config.json", ErrorKind::model_files);
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().kind, ErrorKind::model_files);
  EXPECT_EQ(value.error().message.find("config.json: not valid JSON at byte 8"), 0u)
      << value.error().message;
}

TEST(Json, BoundsNestingAndMembers) {
  const std::string deep(kJsonDepth, '[');
  EXPECT_TRUE(is_json(deep + std::string(kJsonDepth, ']')));
  EXPECT_FALSE(is_json("[" + deep + std::string(kJsonDepth + 1, ']')));
  const std::string bottomless(1'000'000, '[');
  EXPECT_NE(parse(bottomless).error().message.find("nested"), std::string::npos);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_NE(parse(objects).error().message.find("nested"), std::string::npos);
  std::string wide = "{\"k\":0";
  for (std::size_t i = 1; i < kJsonMembers; ++i) wide += fmt::format(",\"k{}\":0", i);
  EXPECT_TRUE(is_json(wide + "}"));
  EXPECT_NE(parse(wide + ",\"one more\":0}").error().message.find("members"), std::string::npos);
}

TEST(Json, TheDeepestValueFitsTheSmallestStack) {
  std::string result;
  const auto work = [&result] {
    std::string text;
    for (std::size_t i = 0; i < kJsonDepth / 2; ++i) text += "{\"a\":[";
    for (std::size_t i = 0; i < kJsonDepth / 2; ++i) text += "]}";
    const Json value = parse(text).value();
    const Json copy = value;
    result = python_json(copy, JsonForm::compact_sorted);
  };
  on_small_stack(work);
  EXPECT_EQ(result.substr(0, 12), "{\"a\":[{\"a\":[");
}

TEST(Json, RulesRefuseNamesThatComeTwiceAndTooManyValues) {
  JsonRules rules;
  rules.unique_names = true;
  rules.values = 4;
  const auto takes = [&](std::string_view text) {
    return parse_json(text, "x", ErrorKind::usage, rules).has_value();
  };
  EXPECT_TRUE(takes(R"({"a":1,"b":{"a":2}})"));
  EXPECT_FALSE(takes(R"({"a":1,"a":2})"));
  EXPECT_FALSE(takes(R"({"a":1,"\u0061":2})"));
  EXPECT_EQ(parse_json(R"({"b":1,"a":[{"k\"":1,"j":2,"k\"":3}]})", "x", ErrorKind::usage, {true})
                .error()
                .message,
            "x: an object has the name \"k\\\"\" twice");
  EXPECT_EQ(parse_json(R"({"b":1,"a":2,"b":{"c":3}})", "x", ErrorKind::usage)->dump(),
            R"({"b":{"c":3},"a":2})")
      << "else the last counts, at the place of the first";
  EXPECT_TRUE(takes("[1,[2]]"));
  EXPECT_FALSE(takes("[1,[2],3]"));
}

}  // namespace
}  // namespace sluice::text
