// A call that a request requires comes, whatever the model would rather write.
#include "server/served.h"

namespace sluice::server {
namespace {

class ForcedCalls : public WithServer {};

const TestJson kParameters = TestJson::parse(R"({"type": "object", "properties": {
    "city": {"type": "string", "minLength": 1, "maxLength": 8}, "unit": {"enum": ["C", "F"]},
    "days": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["city", "unit", "days"],
    "additionalProperties": false})");

TestJson function(const std::string& name, bool strict) {
  return {{"type", "function"},
          {"function", {{"name", name}, {"parameters", kParameters}, {"strict", strict}}}};
}

void expect_weather(const TestJson& arguments) {
  ASSERT_TRUE(arguments.is_object()) << arguments;
  EXPECT_EQ(arguments.size(), 3u) << arguments;
  EXPECT_GE(arguments["city"].get<std::string>().size(), 1u);
  EXPECT_TRUE(arguments["unit"] == "C" || arguments["unit"] == "F") << arguments;
  EXPECT_GE(arguments["days"].get<int>(), 1);
  EXPECT_LE(arguments["days"].get<int>(), 9);
}

TestJson asking(int seed, const TestJson& more) {
  TestJson body =
      chat("The weather?", {{"tools", {function("other", false), function("weather", true)}},
                            {"parallel_tool_calls", false},
                            {"reasoning_effort", "none"},
                            {"max_completion_tokens", 400},
                            {"seed", seed}});
  body.update(more);
  return body;
}

TEST_F(ForcedCalls, OfANamedStrictToolFitItsSchemaStreamedAndWhole) {
  for (int seed = 0; seed < 4; ++seed) {
    TestJson body = asking(
        seed, {{"tool_choice", {{"type", "function"}, {"function", {{"name", "weather"}}}}}});
    const Answered whole = post(port(), "/v1/chat/completions", body);
    ASSERT_EQ(whole.status, 200) << whole.body;
    const TestJson choice = whole.json()["choices"][0];
    ASSERT_EQ(choice["finish_reason"], "tool_calls") << choice;
    ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u) << choice;
    const TestJson call = choice["message"]["tool_calls"][0]["function"];
    EXPECT_EQ(call["name"], "weather");
    EXPECT_TRUE(choice["message"]["content"].is_null()) << choice;
    expect_weather(TestJson::parse(call["arguments"].get<std::string>()));

    body["stream"] = true;
    std::string arguments;
    for (const TestJson& event : post(port(), "/v1/chat/completions", body).events()) {
      const TestJson& delta = event["choices"][0]["delta"];
      if (!delta.contains("tool_calls")) continue;
      arguments += delta["tool_calls"][0]["function"].value("arguments", "");
    }
    EXPECT_EQ(arguments, call["arguments"]);
  }
}

TEST_F(ForcedCalls, AreOfOneOfTheToolsWhereAnyWillDo) {
  // The marker that closes a section, so that arguments of the tool that is not strict end.
  const TestJson choice =
      post(port(), "/v1/chat/completions",
           asking(1, {{"tool_choice", "required"}, {"logit_bias", {{"3844", 30}}}, {"stop", "x"}}))
          .json()["choices"][0];
  ASSERT_EQ(choice["finish_reason"], "tool_calls") << choice;
  const std::string name = choice["message"]["tool_calls"][0]["function"]["name"];
  EXPECT_TRUE(name == "other" || name == "weather") << name;
}

TEST_F(ForcedCalls, ComeAfterThinking) {
  const TestJson choice = post(port(), "/v1/chat/completions",
                               asking(2, {{"tool_choice", "required"},
                                          {"reasoning_effort", "low"},
                                          {"logit_bias", {{"3844", 100}}}}))
                              .json()["choices"][0];
  ASSERT_EQ(choice["finish_reason"], "tool_calls") << choice;
}

TEST_F(ForcedCalls, ComeFromAnthropicsMessagesToo) {
  const TestJson body = {
      {"model", "k3-nano"},
      {"max_tokens", 400},
      {"messages", {{{"role", "user"}, {"content", "The weather?"}}}},
      {"tools", {{{"name", "weather"}, {"input_schema", kParameters}, {"strict", true}}}},
      {"tool_choice",
       {{"type", "tool"}, {"name", "weather"}, {"disable_parallel_tool_use", true}}}};
  const Answered answer = post(port(), "/v1/messages", body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["stop_reason"], "tool_use");
  ASSERT_EQ(answer.json()["content"].size(), 1u) << answer.body;
  expect_weather(answer.json()["content"][0]["input"]);
}

TEST_F(ForcedCalls, OrJsonWhereTheModelMayChoose) {
  const TestJson format = {
      {"type", "json_schema"},
      {"json_schema", {{"name", "it"}, {"schema", {{"enum", {"fog", "sun"}}}}}}};
  int calls = 0, texts = 0;
  for (int seed = 0; seed < 12; ++seed) {
    // Half of the time the marker that ends the empty response is made likely.
    const TestJson more = {{"response_format", format},
                           {"tools", {function("weather", true)}},
                           {"logit_bias", {{"3844", seed % 2 == 0 ? 100 : 0}}}};
    const Answered answer = post(port(), "/v1/chat/completions", asking(seed, more));
    ASSERT_EQ(answer.status, 200) << answer.body;
    const TestJson choice = answer.json()["choices"][0];
    if (choice["finish_reason"] == "tool_calls") {
      ++calls;
      expect_weather(TestJson::parse(
          choice["message"]["tool_calls"][0]["function"]["arguments"].get<std::string>()));
    } else {
      ++texts;
      const std::string content = choice["message"]["content"];
      EXPECT_TRUE(content == "\"fog\"" || content == "\"sun\"") << content;
    }
  }
  EXPECT_GT(calls, 0);
  EXPECT_GT(texts, 0);
}

TEST_F(ForcedCalls, AreRefusedWhereTheyCannotBeHeld) {
  TestJson loose = function("weather", true);
  loose["function"]["parameters"]["additionalProperties"] = true;
  const std::vector<std::pair<TestJson, std::string>> cases = {
      {{{"tools", {loose}}}, "tools[weather].function.parameters.additionalProperties"},
      {{{"tool_choice", "required"}, {"response_format", {{"type", "json_object"}}}},
       "response_format"},
      {{{"response_format", {{"type", "json_object"}}}, {"stop", "x"}}, "response_format"},
  };
  for (const auto& [more, param] : cases) {
    const Answered answer = post(port(), "/v1/chat/completions", asking(1, more));
    EXPECT_EQ(answer.status, 400) << more;
    EXPECT_EQ(answer.json()["error"]["param"], param) << answer.body;
  }
}

}  // namespace
}  // namespace sluice::server
