// Promise: whatever the model's logits are, a call that was required comes, and the arguments of a
// strict tool fit its schema.
#include <gtest/gtest.h>

#include <random>

#include "nano_tokenizer.h"
#include "schema_checker.h"
#include "text/answer_grammar.h"
#include "text/answer_parser.h"
#include "text/sampler.h"
#include "text/token_constraint.h"

namespace sluice::text {
namespace {

const Json kParameters = Json::parse(R"({"type": "object", "properties": {
    "city": {"type": "string", "minLength": 2, "maxLength": 9},
    "unit": {"enum": ["\u00b0C", "F & \"x\"", "", 3, null]},
    "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 12},
    "route": {"$ref": "#/$defs/route"},
    "either": {"anyOf": [{"type": "boolean"}, {"const": "both"}, {"$ref": "#/$defs/route"}]}},
    "required": ["city", "unit", "days"], "additionalProperties": false,
    "$defs": {"route": {"type": "array", "items": {"type": "object", "properties": {
      "stop": {"type": "string", "maxLength": 3}}, "required": ["stop"],
      "additionalProperties": false}, "maxItems": 2}}})");

Json tool(const std::string& name, const Json& parameters, bool strict) {
  return {{"type", "function"},
          {"function", {{"name", name}, {"parameters", parameters}, {"strict", strict}}}};
}

/// What random logits write, held to `asked`; nothing if it does not end. Ends of what is open are
/// made likely, or it would be written on and on. `more`: how likely another part is made.
std::optional<Answer> write(std::mt19937_64& random, const CallingAnswer& asked, bool thinking,
                            float more = 0) {
  const AnswerGrammar answer = *calling_answer(tokenizer(), thinking, asked);
  TokenConstraint constraint(answer.grammar, token_index(), answer.end_ids);
  SamplingOptions options;
  options.seed = random();
  Sampler sampler = *Sampler::create(options);
  std::vector<float> logits(tokenizer().vocabulary());
  std::vector<std::int32_t> ids;
  const auto close = *tokenizer().special_id("<|close|>");
  const auto open = *tokenizer().special_id("<|open|>");
  while (ids.size() < 1500) {
    for (float& logit : logits) logit = static_cast<float>(random() % 1000) / 100;
    for (const char closing : {'"', '}', ']'}) {
      const auto id = tokenizer().encode(std::string(1, closing), Tokenizer::Special::as_text);
      logits[static_cast<std::size_t>((*id)[0])] += 8;
    }
    logits[static_cast<std::size_t>(close)] += 8;
    logits[static_cast<std::size_t>(open)] += more;
    const auto allowed = constraint.allowed();
    EXPECT_TRUE(allowed) << allowed.error().message;
    if (!allowed) return std::nullopt;
    const std::int32_t id = *sampler.next(logits, *allowed);
    if (constraint.ends(id)) {
      return parse_answer(tokenizer(), ChatFormat(ChatFormat::Kind::kimi_k3), thinking, ids);
    }
    EXPECT_TRUE(constraint.push(id));
    ids.push_back(id);
  }
  return std::nullopt;
}

TEST(CallingAnswer, HasTheCallThatIsRequiredAndStrictArgumentsFit) {
  const Json tools = {
      tool("weather", kParameters, true),
      tool("no.arguments", {{"type", "object"}, {"additionalProperties", false}}, true)};
  std::mt19937_64 random(5);
  int calls = 0;
  for (int round = 0; round < 60; ++round) {
    const auto answer = write(random, {.tools = &tools, .must_call = true}, round % 2 == 0);
    if (!answer) continue;
    ASSERT_FALSE(answer->calls.empty());
    EXPECT_EQ(answer->text, "");
    for (const Answer::Call& call : answer->calls) {
      ++calls;
      ASSERT_TRUE(call.whole);
      ASSERT_TRUE(call.name == "weather" || call.name == "no.arguments") << call.name;
      const Json arguments = Json::parse(call.arguments, nullptr, false);
      ASSERT_FALSE(arguments.is_discarded()) << call.arguments;
      if (call.name == "no.arguments") {
        EXPECT_EQ(arguments, Json::object());
      } else {
        ASSERT_TRUE(fits(arguments, kParameters, kParameters)) << call.arguments;
      }
    }
  }
  EXPECT_GT(calls, 60);
}

TEST(CallingAnswer, OfAToolThatIsNotStrictHasAnyArguments) {
  const Json tools = {tool("free", {{"not", "understood"}}, false)};
  std::mt19937_64 random(6);
  int members = 0;
  for (int round = 0; round < 30; ++round) {
    const auto answer = write(random, {.tools = &tools, .must_call = true}, false, 9);
    if (!answer) continue;
    ASSERT_FALSE(answer->calls.empty());
    for (const Answer::Call& call : answer->calls) {
      EXPECT_EQ(call.name, "free");
      const Json arguments = Json::parse(call.arguments, nullptr, false);
      ASSERT_TRUE(arguments.is_object()) << call.arguments;
      members += static_cast<int>(arguments.size());
    }
  }
  EXPECT_GT(members, 10);
}

TEST(CallingAnswer, ThatMayBeATextIsOneOrTheOther) {
  const Json tools = {tool("weather", kParameters, true)};
  const Json schema = {{"type", "array"}, {"items", {{"type", "boolean"}}}};
  std::mt19937_64 random(7);
  for (const Json* const of_text : {static_cast<const Json*>(nullptr), &schema}) {
    int with = 0, without = 0;
    for (int round = 0; round < 60; ++round) {
      const auto answer =
          write(random, {.tools = &tools, .schema = of_text, .where = "schema"}, false);
      if (!answer) continue;
      for (const Answer::Call& call : answer->calls) {
        EXPECT_TRUE(fits(Json::parse(call.arguments), kParameters, kParameters)) << call.arguments;
      }
      ++(answer->calls.empty() ? without : with);
      if (of_text == nullptr) continue;
      EXPECT_EQ(answer->text.empty(), !answer->calls.empty());
      if (!answer->text.empty()) {
        EXPECT_TRUE(fits(Json::parse(answer->text), schema, schema));
      }
    }
    EXPECT_GT(with, 0);
    EXPECT_GT(without, 0);
  }
}

TEST(CallingAnswer, AlternativesThatLeadToTheSamePlaceDoNotMultiply) {
  Json parameters = {{"type", "object"}, {"additionalProperties", false}, {"required", {"a"}}};
  parameters["properties"]["a"]["$ref"] = "#/$defs/0";
  for (int i = 0; i < 60; ++i) {
    const Json next = {{"$ref", "#/$defs/" + std::to_string(i + 1)}};
    parameters["$defs"][std::to_string(i)]["anyOf"] = {next, {{"allOf", {next}}}};
  }
  parameters["$defs"]["60"]["const"] = "aye";
  const Json tools = {tool("t", parameters, true)};
  std::mt19937_64 random(8);
  const auto answer = write(random, {.tools = &tools, .must_call = true}, false);
  ASSERT_TRUE(answer);
  ASSERT_FALSE(answer->calls.empty());
  EXPECT_EQ(answer->calls[0].arguments, "{\"a\": \"aye\"}");
}

TEST(CallingAnswer, NamesWhatIsWrongWithAStrictTool) {
  const auto fault = [](const Json& parameters) {
    const Json tools = {tool("t", parameters, true)};
    const auto answer = calling_answer(tokenizer(), true, {.tools = &tools, .must_call = true});
    return answer ? std::string() : answer.error().message;
  };
  const Json open = {{"type", "object"}, {"properties", {{"a", {{"type", "string"}}}}}};
  EXPECT_EQ(fault(open), "tools[t].function.parameters.additionalProperties: must be false");
  Json pattern = open;
  pattern["additionalProperties"] = false;
  EXPECT_EQ(fault(pattern), "");
  pattern["properties"]["a"]["pattern"] = "x";
  EXPECT_EQ(fault(pattern), "tools[t].function.parameters.properties.a.pattern: is not supported");
  EXPECT_EQ(fault({{"type", "string"}, {"additionalProperties", false}}),
            "tools[t].function.parameters.type: must be \"object\"");
  const std::string nothing =
      fault(Json::parse(R"({"type": "object", "required": ["b"], "additionalProperties": false})"));
  EXPECT_TRUE(nothing.starts_with("tools: ")) << nothing;
}

}  // namespace
}  // namespace sluice::text
