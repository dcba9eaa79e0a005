// Promise: whatever the model's logits are, an answer that has ended is JSON that fits its schema.
#include "text/json_schema.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "nano_tokenizer.h"
#include "schema_checker.h"
#include "schema_texts.h"
#include "text/grammar_state.h"
#include "text/sampler.h"
#include "text/token_constraint.h"

namespace sluice::text {
namespace {

TEST(JsonSchema, TakesWhatFitsAndNothingElse) {
  struct Case {
    const char* schema;
    std::vector<const char*> good, bad;
  };
  const Case cases[] = {
      {R"({"type": "string"})",
       {R"("")", R"("a\n\u00e9\uD83D\uDE42\/")", "\"\u00e9\U0001F642\""},
       {"a", R"("a)", R"("\x")", "\"\n\"", R"("\uD83D")", R"("\uDE42")", R"("\uD83Dx")",
        "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"", "\"\xE0\x80\x80\"", "1"}},
      {R"({"type": "string", "minLength": 2, "maxLength": 3})",
       {R"("ab")", "\"\u00e9\U0001F642\"", R"("\n\n\n")", R"("\uD83D\uDE42x")"},
       {R"("a")", R"("abcd")", "\"\U0001F642\""}},
      {R"({"type": "integer", "minimum": -12, "maximum": 345})",
       {"0", "-12", "-1", "345", "9", "99"},
       {"-13", "346", "1000", "-0", "01", "1.0", "1e1", "-", ""}},
      {R"({"type": "integer", "exclusiveMinimum": 10, "exclusiveMaximum": 12})",
       {"11"},
       {"10", "12", "1", "110"}},
      {R"({"type": "number", "minimum": 0.25, "maximum": 1.5})",
       {"0.25", "1", "1.5", "1.500000", "0.3", "0.999999"},
       {"0", "0.2", "1.6", "2", "-1", "0.2499", "1e0", "1.", "-0.3"}},
      {R"({"type": "number"})",
       {"0", "-0", "1.5", "-1.25e-7", "1E+30", "123456789012345"},
       {"01", ".5", "1.", "1e", "1e999", "+1", "--1"}},
      {R"({"enum": ["a", 1, null, {"b": [true]}, "ab"]})",
       {R"("a")", R"("ab")", "1", "null", R"({"b":[true]})"},
       {R"("b")", "11", "nul", R"({"b":[false]})"}},
      {R"({"type": "string", "enum": ["a", 1]})", {R"("a")"}, {"1"}},
      {R"({"const": "x"})", {R"("x")"}, {R"("y")"}},
      {R"({"type": ["integer", "null"]})", {"7", "null"}, {"1.5", "true"}},
      {R"({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2})",
       {"[true]", "[true,false]", "[ true, false ]", "[\n  true\n]"},
       {"[]", "[1]", "[true,true,true]", "[true,]", "[,true]", "[true"}},
      {R"({"type": "array", "maxItems": 0})", {"[]", "[ ]"}, {"[1]"}},
      {R"({"type": "array", "items": false})", {"[]"}, {"[1]"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}},
          "required": ["a"], "additionalProperties": false})",
       {R"({"a":1})", R"({"a": 1, "b": [null, {"x": 1}]})", "{\n  \"a\": 1\n}"},
       {"{}", R"({"b":1})", R"({"a":1,})", R"({"a":1,"c":1})", R"({"a":"x"})", R"({"a":1,"a":2})",
        R"({"a":1 "b":2})"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}},
          "additionalProperties": {"type": "boolean"}})",
       {"{}", R"({"a":1,"ab":true,"":false})", R"({"z":true})"},
       {R"({"z":1})", R"({"z":true,"a":true})", R"({"\u0061":true})", R"({"a":true})"}},
      {R"({"type": "object", "required": ["k"], "additionalProperties": {"const": 1}})",
       {R"({"k":1})", R"({"k":1,"l":1})"},
       {"{}", R"({"l":1})"}},
      {R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#"}}]})",
       {R"("a")", R"([["a"],[]])"},
       {"1", "[1]"}},
      {R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"next":
          {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["next"],
          "additionalProperties": false}}})",
       {R"({"next":null})", R"({"next":{"next":null}})"},
       {"{}", R"({"next":1})"}},
      {R"({"minimum": 3})", {"3", R"("a")", "{}"}, {"2"}},
      {R"({"allOf": [{"type": "null"}], "description": "x"})", {"null"}, {"1"}},
      {"true", {"1", "[{}]", R"({"a":[1,2,{"b":null}]})"}, {"", "[", "tru"}},
  };
  for (const Case& each : cases) {
    for (const char* text : each.good)
      EXPECT_TRUE(accepts(each.schema, text)) << each.schema << text;
    for (const char* text : each.bad)
      EXPECT_FALSE(accepts(each.schema, text)) << each.schema << text;
  }
}

TEST(JsonSchema, NamesWhatItDoesNotUnderstand) {
  EXPECT_EQ(fault(R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}})"),
            "schema.properties.a.pattern: is not supported");
  EXPECT_EQ(fault(R"({"anyOf": [{}], "minLength": 3})"),
            "schema.minLength: is not supported beside anyOf");
  for (const auto& [schema, place] : std::vector<std::pair<const char*, std::string>>{
           {R"({"oneOf": [{}]})", "schema.oneOf"},
           {R"({"type": "text"})", "schema.type"},
           {R"({"type": []})", "schema.type"},
           {R"({"items": {"not": {}}})", "schema.items.not"},
           {R"({"items": 3})", "schema.items"},
           {R"({"$ref": "other.json"})", "schema.$ref"},
           {R"({"$ref": "#/$defs/none"})", "schema.$ref"},
           {R"({"$ref": "#/~3"})", "schema.$ref"},
           {R"({"$ref": "#"})", "schema"},
           {R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", "schema"},
           {R"({"anyOf": []})", "schema.anyOf"},
           {R"({"allOf": [{}, {}]})", "schema.allOf"},
           {R"({"enum": []})", "schema"},
           {R"({"enum": 1})", "schema.enum"},
           {R"({"type": "integer", "enum": ["a"]})", "schema"},
           {R"({"minLength": -1})", "schema.minLength"},
           {R"({"type": "string", "minLength": 3, "maxLength": 2})", "schema"},
           {R"({"type": "integer", "minimum": 3, "maximum": 2})", "schema"},
           {R"({"type": "integer", "minimum": 0.1, "maximum": 0.9})", "schema"},
           {R"({"type": "number", "minimum": "1"})", "schema.minimum"},
           {R"({"required": 1})", "schema.required"},
           {R"({"properties": []})", "schema.properties"},
           {R"({"type": "object", "required": ["a"], "additionalProperties": false})", "schema"},
           {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
            "schema"},
           {"3", "schema"},
           {"false", "schema"},
       }) {
    EXPECT_TRUE(fault(schema).starts_with(place + ": ")) << schema << " -> " << fault(schema);
  }
}

// ----- random schemas, random logits

Json random_schema(std::mt19937_64& random, int depth) {
  const auto roll = [&](unsigned most) { return static_cast<int>(random() % most); };
  switch (roll(depth > 3 ? 7 : 11)) {
    case 0:
      return {{"type", "boolean"}};
    case 1:
      return {{"type", "string"}, {"minLength", roll(4)}, {"maxLength", 4 + roll(20)}};
    case 2: {
      const int low = roll(2000) - 1000;
      return {{"type", "integer"}, {"minimum", low}, {"maximum", low + roll(3000)}};
    }
    case 3: {
      const double low = (roll(200000) - 100000) / 1000.0;
      return {{"type", "number"}, {"minimum", low}, {"exclusiveMaximum", low + 0.001 + roll(50)}};
    }
    case 4:
      return {{"enum", {"red", "green", 3, nullptr, "re\"d", "\u00e9"}}};
    case 5:
      return {{"type", {"null", "integer"}}, {"maximum", roll(100)}};
    case 6:
      return {{"$ref", "#/$defs/leaf"}};
    case 7:
      return {{"type", "array"},
              {"items", random_schema(random, depth + 1)},
              {"minItems", roll(2)},
              {"maxItems", 1 + roll(4)}};
    case 8:
      return {{"anyOf", {random_schema(random, depth + 1), random_schema(random, depth + 1)}}};
    default: {
      Json schema = {{"type", "object"}, {"properties", Json::object()}};
      const int count = roll(5);
      Json required = Json::array();
      for (int i = 0; i < count; ++i) {
        const std::string name = std::string(1, static_cast<char>('a' + i)) + (roll(2) ? "b" : "");
        schema["properties"][name] = random_schema(random, depth + 1);
        if (roll(2)) required.push_back(name);
      }
      schema["required"] = required;
      if (roll(2)) schema["additionalProperties"] = roll(2) == 1;
      return schema;
    }
  }
}

/// The text that random logits write under a constraint; nothing if it does not end.
std::optional<std::string> write(std::mt19937_64& random, const Json& schema) {
  TokenConstraint constraint(*compile(schema), token_index(), std::vector<std::int32_t>{0});
  SamplingOptions options;
  options.seed = random();
  options.greedy = random() % 2 == 0;
  options.top_k = random() % 2 == 0 ? 5 : 0;
  Sampler sampler = *Sampler::create(options);
  std::vector<float> logits(tokenizer().vocabulary());
  std::string text;
  for (int count = 0; count < 600; ++count) {
    for (float& logit : logits) logit = static_cast<float>(random() % 1000) / 100;
    for (const char closing : {'"', '}', ']'}) {  // or it would write on and on
      const auto id = tokenizer().encode(std::string(1, closing), Tokenizer::Special::as_text);
      logits[static_cast<std::size_t>((*id)[0])] += static_cast<float>(count) / 20;
    }
    const auto allowed = constraint.allowed();
    EXPECT_TRUE(allowed) << allowed.error().message << " after " << text << " of " << schema;
    if (!allowed) return std::nullopt;
    const std::int32_t id = *sampler.next(logits, *allowed);
    if (constraint.ends(id)) return text;
    EXPECT_TRUE(constraint.push(id));
    text += tokenizer().bytes_of(id);
    if (constraint.is_over()) return text;
  }
  return std::nullopt;
}

TEST(JsonSchema, RandomLogitsWriteOnlyWhatFits) {
  std::mt19937_64 random(20261129);
  int written = 0;
  for (int round = 0; round < 400; ++round) {
    Json schema = random_schema(random, 0);
    schema["$defs"]["leaf"] = {
        {"type", "object"},
        {"properties",
         {{"leaf", {{"$ref", "#/$defs/leaf"}}}, {"value", {{"type", "string"}, {"maxLength", 3}}}}},
        {"required", {"value"}},
        {"additionalProperties", false}};
    const auto text = write(random, schema);
    if (!text) continue;
    ++written;
    const Json value = Json::parse(*text, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << *text << "\n" << schema;
    ASSERT_TRUE(fits(value, schema, schema)) << *text << "\n" << schema;
  }
  EXPECT_GT(written, 350);
}

// ----- the mask

TEST(TokenConstraint, AllowsExactlyTheTokensThatGoOn) {
  std::mt19937_64 random(7);
  for (const char* schema :
       {R"({"type": "object"})", R"({"type": "object", "properties": {"name": {"type": "string",
        "maxLength": 9}, "n": {"type": "number", "minimum": 1, "maximum": 200}}})"}) {
    const auto grammar = *compile(Json::parse(schema));
    TokenConstraint constraint(grammar, token_index(), std::vector<std::int32_t>{0});
    GrammarState state(*grammar);
    for (int step = 0; step < 40 && !constraint.is_over(); ++step) {
      const TokenMask mask = **constraint.allowed();
      std::vector<std::int32_t> good;
      for (std::int32_t id = 1; id < static_cast<std::int32_t>(tokenizer().vocabulary()); ++id) {
        GrammarState now = state, next(*grammar);
        bool fits = !tokenizer().is_special(id);
        for (const char byte : tokenizer().bytes_of(id)) {
          fits = fits && now.step(static_cast<unsigned char>(byte), next);
          std::swap(now, next);
        }
        ASSERT_EQ(mask.allows(static_cast<std::size_t>(id)), fits) << tokenizer().bytes_of(id);
        if (fits) good.push_back(id);
      }
      const std::int32_t id = good[random() % good.size()];
      ASSERT_TRUE(constraint.push(id));
      for (const char byte : tokenizer().bytes_of(id)) {
        GrammarState next(*grammar);
        state.step(static_cast<unsigned char>(byte), next);
        state = next;
      }
    }
  }
}

TEST(TokenConstraint, GivesUpWhatCanBeReadInTooManyWays) {
  Json arrays = {{"anyOf", {{{"type", "null"}}}}};
  for (int i = 1; i <= 40; ++i) {
    arrays["anyOf"].push_back({{"type", "array"}, {"items", {{"$ref", "#"}}}, {"maxItems", i}});
  }
  Json strings = {{"anyOf", Json::array()}};
  for (int i = 1; i <= 900; ++i) {
    strings["anyOf"].push_back({{"type", "string"}, {"maxLength", 100 + i}});
  }
  for (const auto& [schema, text] : {std::pair(arrays, "["), std::pair(strings, "\"")}) {
    TokenConstraint constraint(*compile(schema), token_index(), std::vector<std::int32_t>{0});
    Status status;
    const auto ids = tokenizer().encode(text, Tokenizer::Special::as_text);
    for (int i = 0; status && i < 5; ++i) {
      const auto allowed = constraint.allowed();
      status = allowed ? constraint.push((*ids)[0]) : tl::unexpected(allowed.error());
      if (text[0] == '"' && i == 1) break;
    }
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, ErrorKind::usage);
  }
}

TEST(TokenConstraint, ThatAllowsAllChangesNothing) {
  Grammar anything;
  GrammarNode text = {GrammarNode::Kind::text};
  ASSERT_EQ(anything.close(anything.add(text)), Grammar::Fault::none);
  TokenConstraint constraint(std::make_shared<const Grammar>(anything), token_index(),
                             std::vector<std::int32_t>{});
  std::mt19937_64 random(3);
  for (const bool greedy : {true, false}) {
    SamplingOptions options;
    options.greedy = greedy;
    options.seed = 5;
    Sampler free = *Sampler::create(options);
    Sampler held = *Sampler::create(options);
    std::vector<float> logits(tokenizer().vocabulary());
    for (int step = 0; step < 50; ++step) {
      for (std::size_t id = 0; id < logits.size(); ++id) {
        const bool special = tokenizer().is_special(static_cast<std::int32_t>(id));
        logits[id] = special ? -1000 : static_cast<float>(random() % 1000) / 50;
      }
      EXPECT_EQ(*free.next(logits), *held.next(logits, *constraint.allowed()));
    }
  }
}

}  // namespace
}  // namespace sluice::text
