// A model with a chat template of its own: what it refuses is a client's error, what it cannot be
// read for is said, and a thought that it opens is one in every API.
#include "server/folder.h"
#include "server/served.h"
#include "server/templated.h"

namespace sluice::server {
namespace {

/// A model with a template behind a socket.
class Templated {
 public:
  explicit Templated(const std::string& chat_template, const Markers& markers = kChatMlMarkers) {
    make_templated_nano(folder_.path(), chat_template, markers);
    ServerOptions options = options_for_tests();
    options.host.engine.model = folder_.path();
    options.host.name = "k3-nano";
    server_ = start(options);
  }
  int port() const { return server_->port(); }

 private:
  Folder folder_;
  std::unique_ptr<Server> server_;
};

TestJson message(const std::string& text, const TestJson& more = TestJson::object()) {
  TestJson body = {{"model", "k3-nano"},
                   {"messages", {{{"role", "user"}, {"content", text}}}},
                   {"max_tokens", 24},
                   {"temperature", 0}};
  body.update(more);
  return body;
}

/// Nothing was computed.
void expect_no_task(int port) {
  const std::string metrics = get(port, "/metrics").body;
  for (const char* none :
       {"\nsluice_prompt_tokens_total 0\n", "\nsluice_generated_tokens_total 0\n",
        "\nsluice_queue_length 0\n", "\nsluice_running 0\n"}) {
    EXPECT_NE(metrics.find(none), std::string::npos) << none << metrics;
  }
}

TEST(ChatTemplate, ThatIsNotUnderstoodIsNamedAndTheRestWorks) {
  const Templated model(kInclude);
  for (const Answered& refused : {post(model.port(), "/v1/chat/completions", chat("Hello")),
                                  post(model.port(), "/v1/messages", message("Hello"))}) {
    EXPECT_EQ(refused.status, 400) << refused.body;
    for (const char* part : {"the model's chat template: line 2", "include", "/v1/completions"}) {
      EXPECT_NE(refused.body.find(part), std::string::npos) << refused.body;
    }
  }
  expect_no_task(model.port());
  EXPECT_NE(text_of(post(model.port(), "/v1/completions", complete(kPrompt))), "");
}

TEST(ChatTemplate, WhatItRaisesIsTheClientsErrorAndNoTask) {
  const Templated model(
      "{% if messages[0].content == 'no' %}{{ raise_exception('Ask something else!') }}{% endif "
      "%}" +
      kTurns);
  for (const bool stream : {false, true}) {
    for (const Answered& refused :
         {post(model.port(), "/v1/chat/completions", chat("no", {{"stream", stream}})),
          post(model.port(), "/v1/messages", message("no", {{"stream", stream}}))}) {
      EXPECT_EQ(refused.status, 400) << refused.body;
      EXPECT_NE(refused.body.find("Ask something else!"), std::string::npos) << refused.body;
    }
  }
  expect_no_task(model.port());
  EXPECT_EQ(post(model.port(), "/v1/chat/completions", chat("yes")).status, 200);
}

TEST(ChatTemplate, AThoughtThatItOpensIsReasoningInAllApis) {
  const Templated model(kTurns + "<think>\n");
  const TestJson openai = chat("Hello", {{"temperature", 0}});
  const TestJson whole = post(model.port(), "/v1/chat/completions", openai).json();
  const std::string reasoning = whole["choices"][0]["message"].value("reasoning_content", "");
  EXPECT_NE(reasoning, "") << whole;
  EXPECT_EQ(whole["choices"][0]["message"]["content"], "") << whole;
  EXPECT_GT(whole["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);

  std::string streamed;
  TestJson streaming = openai;
  streaming["stream"] = true;
  for (const TestJson& event : post(model.port(), "/v1/chat/completions", streaming).events()) {
    const TestJson& delta = event["choices"][0]["delta"];
    EXPECT_EQ(delta.value("content", ""), "");
    streamed += delta.value("reasoning_content", "");
  }
  EXPECT_EQ(streamed, reasoning);

  const TestJson anthropic = post(model.port(), "/v1/messages", message("Hello")).json();
  ASSERT_EQ(anthropic["content"].size(), 1u) << anthropic;
  EXPECT_EQ(anthropic["content"][0]["thinking"], reasoning);

  // JSON that is asked for is the answer's form, and not that of the thought before it.
  TestJson held = openai;
  held["response_format"] = {{"type", "json_schema"},
                             {"json_schema", {{"name", "n"}, {"schema", {{"type", "integer"}}}}}};
  const Answered json = post(model.port(), "/v1/chat/completions", held);
  ASSERT_EQ(json.status, 200) << json.body;
  EXPECT_EQ(json.json()["choices"][0]["message"]["reasoning_content"], reasoning) << json.body;
}

const TestJson kTool = {{"type", "function"},
                        {"function", {{"name", "get"}, {"parameters", {{"type", "object"}}}}}};

/// Makes a tool strict.
TestJson strict() {
  TestJson tool = kTool;
  tool["function"]["strict"] = true;
  return tool;
}

TEST(ChatTemplate, OfGptOssTakesToolsButForcesNone) {
  const Templated model(kChannels, kChannelMarkers);
  const auto answer = [&](const TestJson& more) {
    return post(model.port(), "/v1/chat/completions", chat("Hello", more));
  };
  const auto tokens = [&](const TestJson& more) {
    const Answered answered = answer(more);
    EXPECT_EQ(answered.status, 200) << answered.body;
    return answered.json()["usage"]["prompt_tokens"].get<int>();
  };
  const int plain = tokens(TestJson::object());
  EXPECT_GT(tokens({{"tools", {kTool}}}), plain);
  EXPECT_EQ(tokens({{"tools", {kTool}}, {"tool_choice", "none"}}), plain);
  const TestJson json = {{"type", "json_object"}};
  for (const TestJson& more :
       {TestJson{{"tools", {kTool}}, {"tool_choice", "required"}}, TestJson{{"tools", {strict()}}},
        TestJson{{"tools", {kTool}}, {"response_format", json}},
        TestJson{{"reasoning_effort", "none"}}, TestJson{{"reasoning_effort", "max"}}}) {
    const Answered refused = answer(more);
    EXPECT_EQ(refused.status, 400) << more << refused.body;
    EXPECT_NE(refused.body.find("for this model"), std::string::npos) << refused.body;
  }
  EXPECT_EQ(answer({{"reasoning_effort", "low"}}).status, 200);
  TestJson thinking = message(
      "Hello", {{"thinking", {{"type", "adaptive"}}}, {"output_config", {{"effort", "medium"}}}});
  EXPECT_EQ(post(model.port(), "/v1/messages", thinking).status, 200);
  const TestJson efforts = get(model.port(), "/v1/models").json()["data"][0]["reasoning_efforts"];
  EXPECT_EQ(efforts, TestJson({"medium", "high", "low"}));
}

TEST(ChatTemplate, OfGptOssGetsBackWhatAClientKeeps) {
  const Templated model(kChannels, kChannelMarkers);
  const TestJson call = {{"id", "call_1"},
                         {"type", "function"},
                         {"function", {{"name", "get"}, {"arguments", "{\"city\": \"Bern\"}"}}}};
  TestJson body = chat("The weather?", {{"tools", {kTool}}});
  body["messages"].push_back({{"role", "assistant"},
                              {"content", nullptr},
                              {"reasoning_content", "why"},
                              {"tool_calls", {call}}});
  body["messages"].push_back({{"role", "tool"}, {"tool_call_id", "call_1"}, {"content", "sun"}});
  EXPECT_EQ(post(model.port(), "/v1/chat/completions", body).status, 200);
  body["messages"][1]["tool_calls"].push_back(call);
  const Answered refused = post(model.port(), "/v1/chat/completions", body);
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("one call at a time"), std::string::npos) << refused.body;
}

TEST(ChatTemplate, OfGptOssAnswersInJsonWhereItIsAskedFor) {
  const Templated model(kChannels, kChannelMarkers);
  const std::string end = "3844";  // <|end|>: it does not think for long
  for (int seed = 0; seed < 4; ++seed) {
    const Answered answered = post(
        model.port(), "/v1/chat/completions",
        chat("Hello", {{"seed", seed},
                       {"max_completion_tokens", 40},
                       {"logit_bias", {{end, 100}}},
                       {"response_format",
                        {{"type", "json_schema"},
                         {"json_schema", {{"name", "n"}, {"schema", {{"enum", {"yes"}}}}}}}}}));
    ASSERT_EQ(answered.status, 200) << answered.body;
    const TestJson choice = answered.json()["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop") << choice;
    EXPECT_EQ(choice["message"]["content"], "\"yes\"") << choice;
  }
}

}  // namespace
}  // namespace sluice::server
