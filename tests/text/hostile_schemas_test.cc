// Schemas made to take for ever: without bounds, each of these would not end, or not in an hour.
#include <gtest/gtest.h>

#include <string>

#include "schema_texts.h"

namespace sluice::text {
namespace {

TEST(HostileSchemas, AreRefusedWhereTheyAreTooLarge) {
  Json deep = true;
  for (int i = 0; i < 90; ++i) deep = Json{{"type", "array"}, {"items", deep}, {"minItems", 1}};
  EXPECT_FALSE(compile(deep));
  Json chain = {{"$ref", "#/$defs/0"}};
  for (int i = 0; i < 5000; ++i) {
    chain["$defs"][std::to_string(i)] = {{"$ref", "#/$defs/" + std::to_string(i + 1)}};
  }
  chain["$defs"]["5000"] = {{"type", "null"}};
  EXPECT_FALSE(compile(chain));
  Json wide = {{"type", "object"}, {"properties", Json::object()}};
  for (int i = 0; i < 4000; ++i) wide["properties"][std::to_string(i)] = {{"type", "object"}};
  EXPECT_FALSE(compile(wide));
}

/// $defs of `count` levels, of which each is `level` of a reference to the next.
template <class Level>
Json chain_of(int count, const Level& level, const Json& last) {
  Json chain = {{"$ref", "#/$defs/0"}};
  for (int i = 0; i < count; ++i) {
    chain["$defs"][std::to_string(i)] = level(Json{{"$ref", "#/$defs/" + std::to_string(i + 1)}});
  }
  chain["$defs"][std::to_string(count)] = last;
  return chain;
}

TEST(HostileSchemas, AlternativesThatLeadToTheSamePlaceDoNotMultiply) {
  const Json null = {{"type", "null"}};
  // Equal ones are told by their text, those by two names only once the grammar is whole.
  const auto twice = [](const Json& next) { return Json{{"anyOf", {next, next}}}; };
  const auto by_two_names = [](const Json& next) {
    return Json{{"anyOf", {next, {{"anyOf", {next}}}, {{"allOf", {next}}}}}};
  };
  for (const Json& schema : {chain_of(250, twice, null), chain_of(100, by_two_names, null)}) {
    EXPECT_TRUE(accepts(schema.dump().c_str(), "null"));
    EXPECT_FALSE(accepts(schema.dump().c_str(), "1"));
  }
  const auto lists = [&](const Json& next) {
    return twice({{"type", "array"}, {"items", next}, {"minItems", 1}});
  };
  const Json nested = chain_of(40, lists, null);
  EXPECT_TRUE(accepts(nested.dump().c_str(), std::string(40, '[') + "null" + std::string(40, ']')));
}

TEST(HostileSchemas, AreAnsweredOrRefused) {
  const Json null = {{"type", "null"}};
  const auto optional = [](const Json& next) {
    Json object = {{"type", "object"}, {"properties", Json::object()}};
    for (int i = 0; i < 40; ++i) object["properties"][std::to_string(i)] = next;
    return object;
  };
  const auto longest = [](const Json& next) {
    return Json{{"type", "array"}, {"items", next}, {"minItems", 1'000'000}};
  };
  Json many = {{"enum", Json::array()}};
  for (int i = 0; i < 60'000; ++i) many["enum"].push_back(std::to_string(i));
  Json alternatives = {{"anyOf", Json::array()}};
  for (int i = 0; i < 2000; ++i) alternatives["anyOf"].push_back({{"const", i}});
  Json types = {{"type", Json::array()}, {"properties", {{"a", null}}}};
  for (int i = 0; i < 100'000; ++i) types["type"].push_back("object");
  struct Case {
    Json schema;
    std::string fault;  // empty: it is taken
  };
  const Case cases[] = {
      {chain_of(40, optional, null), ""},
      {chain_of(120, optional, null), "schema: is too large: more than 20000 parts"},
      {chain_of(60, longest, null), ""},
      {chain_of(2000, longest, null), "schema: "},
      {chain_of(1000, longest, null), "schema: no JSON text fits it"},
      {many, ""},
      {alternatives, "schema: at one place there are more than 1024 alternatives"},
      {types, ""},
      {Json::parse(R"({"minLength": 1000000, "maxLength": 1000000})"), ""},
      {Json::parse(R"({"minLength": 1000000000000})"), "schema.minLength: must be a whole number"},
      {Json::parse(R"({"additionalProperties": {}, "patternProperties": {"(a+)+$": {}}})"),
       "schema.patternProperties: is not supported"},
      {Json::parse(R"({"items": {"$ref": "#"}, "minItems": 1, "type": "array"})"),
       "schema: no JSON text fits it"},
  };
  for (const Case& each : cases) {
    const auto grammar = compile(each.schema);
    const std::string message = grammar ? "" : grammar.error().message;
    EXPECT_EQ(message.empty(), each.fault.empty()) << message << " instead of " << each.fault;
    EXPECT_TRUE(message.starts_with(each.fault)) << message << " instead of " << each.fault;
  }
}

TEST(HostileSchemas, HaveShortPlacesInMessages) {
  Json deep = {{"pattern", "x"}};
  for (int i = 0; i < 40; ++i) deep = {{"properties", {{std::string(200, 'n'), deep}}}};
  EXPECT_LT(fault(deep.dump().c_str()).size(), 600u);
  const auto list = [](const Json& next) { return Json{{"type", "array"}, {"items", next}}; };
  EXPECT_EQ(fault(chain_of(500, list, {{"pattern", "x"}}).dump().c_str()),
            "schema.$defs.500.pattern: is not supported");
}

}  // namespace
}  // namespace sluice::text
