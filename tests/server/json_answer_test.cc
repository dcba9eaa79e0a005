// Answers that are held to JSON, and what the model held of the prompt.
#include "server/served.h"

namespace sluice::server {
namespace {

class JsonAnswers : public WithServer {};

TestJson schema_format(TestJson schema) {
  return {{"type", "json_schema"},
          {"json_schema", {{"name", "it"}, {"strict", true}, {"schema", std::move(schema)}}}};
}

const TestJson kShip = TestJson::parse(R"({"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 12}, "masts": {"type": "integer", "minimum": 1,
    "maximum": 5}, "kind": {"enum": ["brig", "sloop"]}}, "required": ["name", "masts", "kind"],
    "additionalProperties": false})");

void expect_ship(const TestJson& ship) {
  ASSERT_TRUE(ship.is_object()) << ship;
  EXPECT_EQ(ship.size(), 3u);
  EXPECT_LE(ship["name"].get<std::string>().size(), 48u);
  EXPECT_GE(ship["masts"].get<int>(), 1);
  EXPECT_LE(ship["masts"].get<int>(), 5);
  EXPECT_TRUE(ship["kind"] == "brig" || ship["kind"] == "sloop");
}

TEST_F(JsonAnswers, FitTheSchemaStreamedAndWhole) {
  for (int seed = 0; seed < 6; ++seed) {
    TestJson body = chat("A ship?", {{"response_format", schema_format(kShip)},
                                     {"reasoning_effort", "none"},
                                     {"max_completion_tokens", 400},
                                     {"seed", seed}});
    const Answered whole = post(port(), "/v1/chat/completions", body);
    ASSERT_EQ(whole.status, 200) << whole.body;
    const TestJson choice = whole.json()["choices"][0];
    ASSERT_EQ(choice["finish_reason"], "stop") << choice;
    const std::string content = choice["message"]["content"];
    expect_ship(TestJson::parse(content));

    body["stream"] = true;
    std::string streamed;
    for (const TestJson& event : post(port(), "/v1/chat/completions", body).events()) {
      streamed += event["choices"][0]["delta"].value("content", "");
    }
    EXPECT_EQ(streamed, content);
  }
}

TEST_F(JsonAnswers, MayBeThoughtAbout) {
  // Whatever the model thinks, if it comes to an end, the answer is JSON.
  TestJson body = chat("A ship?", {{"response_format", schema_format(kShip)},
                                   {"max_completion_tokens", 600},
                                   {"reasoning_effort", "low"}});
  body["logit_bias"] = {{"3844", 100}};  // the marker that closes a section
  const TestJson choice = post(port(), "/v1/chat/completions", body).json()["choices"][0];
  ASSERT_EQ(choice["finish_reason"], "stop") << choice;
  expect_ship(TestJson::parse(choice["message"]["content"].get<std::string>()));
}

TEST_F(JsonAnswers, OfAnyKindAreObjects) {
  const TestJson object = {{"type", "json_object"}};
  int ended = 0;
  for (int seed = 0; seed < 8; ++seed) {
    const TestJson body = chat("JSON!", {{"response_format", object},
                                         {"reasoning_effort", "none"},
                                         {"max_completion_tokens", 200},
                                         {"seed", seed}});
    const TestJson choice = post(port(), "/v1/chat/completions", body).json()["choices"][0];
    if (choice["finish_reason"] != "stop") continue;
    ++ended;
    const std::string content = choice["message"]["content"];
    EXPECT_TRUE(TestJson::parse(content).is_object()) << content;
  }
  EXPECT_GT(ended, 0);
}

TEST_F(JsonAnswers, ComeFromAnthropicsMessagesToo) {
  const TestJson body = {
      {"model", "k3-nano"},
      {"max_tokens", 400},
      {"messages", {{{"role", "user"}, {"content", "A ship?"}}}},
      {"output_config", {{"format", {{"type", "json_schema"}, {"schema", kShip}}}}}};
  const Answered answer = post(port(), "/v1/messages", body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["stop_reason"], "end_turn");
  expect_ship(TestJson::parse(answer.json()["content"][0]["text"].get<std::string>()));
}

TEST_F(JsonAnswers, RefuseWhatTheyCannotHold) {
  const std::vector<std::pair<TestJson, std::string>> cases = {
      {{{"response_format", schema_format({{"type", "string"}, {"pattern", "a"}})}},
       "response_format.json_schema.schema.pattern"},
      {{{"response_format", schema_format({{"enum", TestJson::array()}})}},
       "response_format.json_schema.schema"},
      {{{"response_format", {{"type", "json_schema"}}}}, "response_format.json_schema"},
      {{{"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "x"}}}}}},
       "response_format.json_schema.schema"},
      {{{"response_format", {{"type", "json_object"}, {"x", 1}}}}, "response_format.x"},
      {{{"response_format", "json"}}, "response_format"},
      {{{"response_format", {{"type", "json_object"}}}, {"stop", "x"}}, "response_format"},
  };
  for (const auto& [more, param] : cases) {
    const Answered answer = post(port(), "/v1/chat/completions", chat("x", more));
    EXPECT_EQ(answer.status, 400) << more;
    EXPECT_EQ(answer.json()["error"]["param"], param) << answer.body;
  }
}

TEST_F(JsonAnswers, EchoTellsWhatTheModelHeldOfThePrompt) {
  const TestJson more = {{"echo", true}, {"logprobs", 2}, {"max_tokens", 4}, {"n", 2}};
  const Answered answer = post(port(), "/v1/completions", complete(kPrompt, more));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const TestJson all = answer.json();
  const TestJson held = all["choices"][0]["logprobs"];
  const auto prompt_tokens = all["usage"]["prompt_tokens"].get<std::size_t>();
  ASSERT_EQ(held["tokens"].size(), prompt_tokens + 4);
  std::string text;
  for (const TestJson& token : held["tokens"]) text += token.get<std::string>();
  EXPECT_EQ(text, all["choices"][0]["text"]);
  EXPECT_TRUE(held["token_logprobs"][0].is_null());
  EXPECT_TRUE(held["top_logprobs"][0].is_null());
  EXPECT_EQ(all["choices"][1]["logprobs"], held) << "greedy choices are the same";

  // Each is what the model says after the tokens before, of the prompt as of the answer.
  for (std::size_t i = 1; i < 4; ++i) {
    TestJson part = complete("", {{"logprobs", 2}, {"max_tokens", 1}});
    std::string before;
    for (std::size_t j = 0; j < i; ++j) before += held["tokens"][j].get<std::string>();
    part["prompt"] = before;
    const TestJson next =
        post(port(), "/v1/completions", part).json()["choices"][0]["logprobs"]["top_logprobs"][0];
    EXPECT_EQ(next, held["top_logprobs"][i]) << before;
  }

  // Only the prompt, as those want it who measure a model.
  TestJson only = complete(kPrompt, {{"echo", true}, {"logprobs", 0}, {"max_tokens", 0}});
  const TestJson scored = post(port(), "/v1/completions", only).json();
  EXPECT_EQ(scored["choices"][0]["text"], kPrompt);
  EXPECT_EQ(scored["choices"][0]["logprobs"]["token_logprobs"].size(), prompt_tokens);
  only["stream"] = true;
  std::string streamed;
  TestJson values = TestJson::array();
  for (const TestJson& event : post(port(), "/v1/completions", only).events()) {
    streamed += event["choices"][0]["text"].get<std::string>();
    if (event["choices"][0]["logprobs"].is_null()) continue;
    for (const TestJson& value : event["choices"][0]["logprobs"]["token_logprobs"]) {
      values.push_back(value);
    }
  }
  EXPECT_EQ(streamed, kPrompt);
  EXPECT_EQ(values, scored["choices"][0]["logprobs"]["token_logprobs"]);
}

}  // namespace
}  // namespace sluice::server
