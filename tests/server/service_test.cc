// The server as clients see it: a real model behind a real socket.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <random>
#include <thread>

#include "server/served.h"

namespace sluice::server {
namespace {

class TheServer : public WithServer {};

TEST_F(TheServer, SaysWhatItHas) {
  EXPECT_EQ(get(port(), "/health").json(), (TestJson{{"status", "ok"}}));
  const TestJson models = get(port(), "/v1/models").json();
  ASSERT_EQ(models["data"].size(), 1u);
  EXPECT_EQ(models["data"][0]["id"], "k3-nano");
  EXPECT_EQ(get(port(), "/v1/models/k3-nano").json()["object"], "model");
  EXPECT_EQ(get(port(), "/v1/models/gpt-4").status, 404);
  EXPECT_EQ(get(port(), "/v1/status").json()["layers"], 9);
}

TEST_F(TheServer, GreedyTextIsTheGolden) {
  std::ifstream in(SLUICE_SOURCE_DIR "/tests/golden/k3-nano/golden.json");
  const TestJson golden = TestJson::parse(in);
  for (const TestJson& prompt : golden["prompts"]) {
    if (prompt["name"] != "text10") continue;
    const TestJson body = complete(prompt["text"], {{"max_tokens", prompt["greedy"].size()}});
    EXPECT_EQ(text_of(post(port(), "/v1/completions", body)), prompt["greedy_text"]);
    return;
  }
  ADD_FAILURE() << "the golden is gone";
}

/// What a client puts together out of a stream.
struct Streamed {
  std::string content, reasoning, finish;
  TestJson logprobs = TestJson::array();
  TestJson usage;
};

Streamed streamed(int port, TestJson body) {
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const Answered answer = post(port, "/v1/chat/completions", body);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.headers.at("content-type"), "text/event-stream");
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
  Streamed all;
  for (const TestJson& event : answer.events()) {
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    if (!event["usage"].is_null()) {
      all.usage = event["usage"];
      continue;
    }
    const TestJson& choice = event["choices"][0];
    all.content += choice["delta"].value("content", "");
    all.reasoning += choice["delta"].value("reasoning_content", "");
    if (!choice["finish_reason"].is_null()) all.finish = choice["finish_reason"];
    if (choice["logprobs"].is_null()) continue;
    for (const TestJson& each : choice["logprobs"]["content"]) all.logprobs.push_back(each);
  }
  return all;
}

TEST_F(TheServer, StreamedAnswersAreTheWholeOnes) {
  for (const TestJson& more :
       {TestJson{{"reasoning_effort", "none"}}, TestJson{{"reasoning_effort", "low"}},
        TestJson{{"temperature", 0}, {"reasoning_effort", "none"}, {"stop", {"a", "th", "e "}}},
        TestJson{{"reasoning_effort", "none"}, {"logprobs", true}, {"top_logprobs", 3}}}) {
    const TestJson body = chat("What is a sluice?", more);
    const TestJson whole = post(port(), "/v1/chat/completions", body).json();
    const Streamed stream = streamed(port(), body);
    const TestJson& choice = whole["choices"][0];
    EXPECT_EQ(stream.content, choice["message"].value("content", "")) << more;
    EXPECT_EQ(stream.reasoning, choice["message"].value("reasoning_content", "")) << more;
    EXPECT_EQ(stream.finish, choice["finish_reason"]) << more;
    EXPECT_EQ(stream.usage["completion_tokens"], whole["usage"]["completion_tokens"]) << more;
    if (more.contains("logprobs")) {
      EXPECT_EQ(stream.logprobs, choice["logprobs"]["content"]);
      EXPECT_GT(stream.logprobs.size(), 0u);
      EXPECT_EQ(stream.logprobs[0]["top_logprobs"].size(), 3u);
    }
  }
}

TEST_F(TheServer, EveryLengthOfAnAnswerIsABeginningOfTheLongest) {
  const std::string longest =
      text_of(post(port(), "/v1/completions", complete(kPrompt, {{"max_tokens", 16}})));
  for (int count = 1; count < 16; ++count) {
    const Answered each =
        post(port(), "/v1/completions", complete(kPrompt, {{"max_tokens", count}}));
    EXPECT_TRUE(longest.starts_with(text_of(each))) << count;
    EXPECT_EQ(each.json()["usage"]["completion_tokens"], count);
    EXPECT_EQ(each.json()["choices"][0]["finish_reason"], "length");
  }
}

TEST_F(TheServer, StopsEchoAndManyChoices) {
  const std::string whole = text_of(post(port(), "/v1/completions", complete(kPrompt)));
  const std::string stop = whole.substr(whole.size() / 2, 3);
  const TestJson stopped =
      post(port(), "/v1/completions", complete(kPrompt, {{"stop", stop}})).json();
  EXPECT_EQ(stopped["choices"][0]["text"], whole.substr(0, whole.find(stop)));
  EXPECT_EQ(stopped["choices"][0]["finish_reason"], "stop");

  EXPECT_EQ(text_of(post(port(), "/v1/completions", complete(kPrompt, {{"echo", true}}))),
            kPrompt + whole);

  const TestJson many = post(port(), "/v1/completions",
                             complete(kPrompt, {{"n", 3}, {"temperature", 1}, {"seed", 1}}))
                            .json()["choices"];
  ASSERT_EQ(many.size(), 3u);
  EXPECT_NE(many[0]["text"], many[1]["text"]);
  const Answered second =
      post(port(), "/v1/completions", complete(kPrompt, {{"temperature", 1}, {"seed", 2}}));
  EXPECT_EQ(text_of(second), many[1]["text"]) << "choice i draws with seed + i";

  TestJson prompts = complete("");
  prompts["prompt"] = {kPrompt, "The ship"};
  EXPECT_EQ(post(port(), "/v1/completions", prompts).json()["choices"][0]["text"], whole);
}

TEST_F(TheServer, BiasAndPenaltiesWork) {
  const TestJson first =
      post(port(), "/v1/completions", complete(kPrompt, {{"logprobs", 2}, {"max_tokens", 1}}))
          .json()["choices"][0]["logprobs"];
  EXPECT_EQ(first["top_logprobs"][0].size(), 2u);
  EXPECT_LE(first["token_logprobs"][0], 0);
  TestJson body = complete(kPrompt, {{"max_tokens", 8}, {"logit_bias", {{"100", 100}}}});
  const std::string biased = text_of(post(port(), "/v1/completions", body));
  body["frequency_penalty"] = 2;
  body["presence_penalty"] = 2;
  body["logit_bias"]["100"] = 12;
  EXPECT_NE(text_of(post(port(), "/v1/completions", body)), biased);
}

TEST_F(TheServer, WhatIsNotSupportedIsRefusedByName) {
  const std::string chat_path = "/v1/chat/completions";
  const TestJson tool = {{"type", "function"}, {"function", {{"name", "same"}}}};
  const std::vector<std::pair<TestJson, std::string>> cases = {
      {{{"temperature", 3}}, "temperature"},
      {{{"temperature", "hot"}}, "temperature"},
      {{{"top_p", -0.1}}, "top_p"},
      {{{"n", 0}}, "n"},
      {{{"n", 17}}, "n"},
      {{{"stop", ""}}, "stop"},
      {{{"stop", std::vector<std::string>(17, "x")}}, "stop"},
      {{{"max_tokens", 0}}, "max_tokens"},
      {{{"logit_bias", {{"x", 1}}}}, "logit_bias"},
      {{{"logit_bias", {{"5000", 1}}}}, "logit_bias"},
      {{{"logit_bias", {{"1", 101}}}}, "logit_bias"},
      {{{"top_logprobs", 2}}, "top_logprobs"},
      {{{"reasoning_effort", "medium"}}, "reasoning_effort"},
      {{{"response_format", {{"type", "xml"}}}}, "response_format.type"},
      {{{"stream_options", {{"include_usage", true}}}}, "stream_options"},
      {{{"stream", true}, {"stream_options", {{"x", 1}}}}, "stream_options.x"},
      {{{"store", true}}, "store"},
      {{{"functions", TestJson::array()}}, "functions"},
      {{{"frobnicate", 1}}, "frobnicate"},
      {{{"tool_choice", "required"}}, "tool_choice"},
      {{{"tools", {{{"type", "web_search"}}}}}, "tools[0].type"},
      {{{"tools", {{{"type", "function"}, {"function", {{"name", "a b"}}}}}}},
       "tools[0].function.name"},
      {{{"tools", {tool, tool}}}, "tools[1]"},
      {{{"tools", {tool}}, {"tool_choice", {{"type", 1}, {"function", {{"name", "same"}}}}}},
       "tool_choice"},
      {{{"tools", {tool}}, {"tool_choice", {{"type", nullptr}, {"function", {{"name", "same"}}}}}},
       "tool_choice"},
      {{{"tools", {tool}}, {"tool_choice", {{"function", {{"name", "same"}}}}}}, "tool_choice"},
      {{{"messages", TestJson::array()}}, "messages"},
      {{{"messages", {{{"role", "user"}, {"content", nullptr}}}}}, "messages[0].content"},
      {{{"messages", {{{"role", "developer"}}}}}, "messages[0].content"},
      {{{"messages", {{{"role", "robot"}, {"content", "x"}}}}}, "messages[0].role"},
      {{{"messages", {{{"content", "x"}}}}}, "messages[0].role"},
      {{{"messages", {{{"role", "tool"}, {"tool_call_id", "q"}, {"content", "x"}}}}}, "messages"},
      {{{"messages", {{{"role", "user"}, {"content", 5}}}}}, "messages[0].content"},
      {{{"messages", {{{"role", "user"}, {"content", "x"}, {"weight", 1}}}}}, "messages[0].weight"},
  };
  for (const auto& [more, param] : cases) {
    const Answered answer = post(port(), chat_path, chat("x", more));
    EXPECT_EQ(answer.status, 400) << more;
    EXPECT_EQ(answer.json()["error"]["param"], param) << answer.body;
    EXPECT_EQ(answer.json()["error"]["type"], "invalid_request_error");
  }
  const Answered model = post(port(), chat_path, chat("x", {{"model", "gpt-4"}}));
  EXPECT_EQ(model.status, 404);
  EXPECT_EQ(model.json()["error"]["code"], "model_not_found");
  const Answered nothing = post(port(), "/v1/completions", complete("x", {{"max_tokens", 0}}));
  EXPECT_EQ(nothing.json()["error"]["param"], "max_tokens");
}

TEST_F(TheServer, TellsNoMoreOfTokensThanThereIsRoomFor) {
  const auto param_of = [](const Answered& answer) {
    EXPECT_EQ(answer.status, 400) << answer.body;
    return answer.json()["error"]["param"];
  };
  const TestJson much = {
      {"n", 16}, {"logprobs", true}, {"top_logprobs", 20}, {"max_completion_tokens", 2000}};
  EXPECT_EQ(param_of(post(port(), "/v1/chat/completions", chat("x", much))), "top_logprobs");
  const TestJson prompts = std::vector<std::string>(128, "A whale");
  EXPECT_EQ(param_of(post(port(), "/v1/completions",
                          complete("x", {{"prompt", prompts}, {"n", 16}, {"logprobs", 20}}))),
            "logprobs");
  const TestJson echo = std::vector<std::string>(128, kPrompt);
  EXPECT_EQ(
      param_of(post(
          port(), "/v1/completions",
          complete(
              "x",
              {{"prompt", echo}, {"n", 4}, {"logprobs", 20}, {"echo", true}, {"max_tokens", 0}}))),
      "logprobs");
  const Answered little = post(port(), "/v1/completions",
                               complete("x", {{"logprobs", 20}, {"n", 2}, {"max_tokens", 2}}));
  EXPECT_EQ(little.status, 200) << little.body;
}

TEST_F(TheServer, HoldsNoMoreAnswersThanThereIsRoomFor) {
  TestJson body = complete("x", {{"n", 16}, {"max_tokens", 4000}});
  body["prompt"] = std::vector<std::string>(128, "A whale");
  const Answered refused = post(port(), "/v1/completions", body);
  EXPECT_EQ(refused.status, 400) << refused.body;
  EXPECT_EQ(refused.json()["error"]["param"], "n") << refused.body;
}

TEST_F(TheServer, SaysOfAMessageWhatWasExpected) {
  const auto message_about = [](const TestJson& message) -> std::string {
    const Answered answer =
        post(port(), "/v1/chat/completions", chat("x", {{"messages", TestJson::array({message})}}));
    return answer.json()["error"]["message"];
  };
  EXPECT_EQ(message_about({{"role", "robot"}, {"content", "x"}}),
            "messages[0].role: must be system, developer, user, assistant or tool, not \"robot\"");
  EXPECT_EQ(message_about({{"role", "tool"}, {"tool_call_id", "q"}, {"content", "x"}}),
            "messages: a tool message answers \"q\", but no call has that id");
}

TEST_F(TheServer, TakesToolsOfOneNameOnceFromAnthropicsClients) {
  const TestJson tool = {{"name", "same"}, {"input_schema", {{"type", "object"}}}};
  const Answered answer = post(port(), "/v1/messages",
                               {{"model", "k3-nano"},
                                {"max_tokens", 1},
                                {"tools", {tool, tool}},
                                {"messages", {{{"role", "user"}, {"content", "x"}}}}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("another tool has the name"), std::string::npos) << answer.body;
}

TestJson message_with(const TestJson& block, const TestJson& more = TestJson::object()) {
  const TestJson turn = {{"role", "user"}, {"content", TestJson::array({block})}};
  TestJson body = {{"model", "k3-nano"}, {"max_tokens", 8}, {"messages", TestJson::array({turn})}};
  body.update(more);
  return body;
}

TEST_F(TheServer, TakesHintsAboutCaching) {
  const auto answered = [](const TestJson& hint) {
    TestJson body = message_with({{"type", "text"}, {"text", "A whale?"}, {"cache_control", hint}});
    body["system"] = {{{"type", "text"}, {"text", "Short."}, {"cache_control", hint}}};
    body["tools"] = {
        {{"name", "get"}, {"input_schema", {{"type", "object"}}}, {"cache_control", hint}}};
    return post(port(), "/v1/messages", body);
  };
  for (const TestJson& good :
       {TestJson{{"type", "ephemeral"}}, TestJson{{"type", "ephemeral"}, {"ttl", "5m"}},
        TestJson{{"type", "ephemeral"}, {"ttl", "1h"}}, TestJson()}) {
    EXPECT_EQ(answered(good).status, 200) << good;
  }
  for (const TestJson& bad : {TestJson{{"type", "eternal"}}, TestJson{{"ttl", "5m"}},
                              TestJson("ephemeral"), TestJson{{"type", "ephemeral"}, {"ttl", "2h"}},
                              TestJson{{"type", "ephemeral"}, {"x", 1}}}) {
    const Answered refused = answered(bad);
    EXPECT_EQ(refused.status, 400) << bad;
    EXPECT_NE(refused.body.find("cache_control"), std::string::npos) << refused.body;
  }
}

TEST_F(TheServer, ATopPOfZeroLeavesTheLikeliestTokenAlone) {
  const TestJson sampled = {{"temperature", 1}, {"top_p", 0}};
  EXPECT_EQ(text_of(post(port(), "/v1/completions", complete(kPrompt, sampled))),
            text_of(post(port(), "/v1/completions", complete(kPrompt, {{"temperature", 0}}))));
  const TestJson text = {{"type", "text"}, {"text", "A whale?"}};
  EXPECT_EQ(
      post(port(), "/v1/messages", message_with(text, sampled)).json()["content"],
      post(port(), "/v1/messages", message_with(text, {{"temperature", 0}})).json()["content"]);
}

TEST_F(TheServer, ErrorsAreInTheWordsOfTheApiThatWasAsked) {
  for (const char* path : {"/v1/messages", "/v1/messages/batches", "/v1/messages/count_tokens"}) {
    const TestJson error = get(port(), path).json();
    EXPECT_EQ(error.value("type", ""), "error") << error;
    EXPECT_TRUE(error["error"]["message"].is_string()) << error;
  }
  EXPECT_EQ(get(port(), "/v1/messages/batches").json()["error"]["type"], "not_found_error");
  for (const char* path : {"/v1/messagesx", "/v1/chat/completions"}) {
    EXPECT_FALSE(get(port(), path).json().contains("type"));
  }
}

TEST_F(TheServer, APromptBeyondTheContextIsRefused) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "word ";
  const Answered answer = post(port(), "/v1/chat/completions", chat(text));
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json()["error"]["code"], "context_length_exceeded");
  const Answered completion = post(port(), "/v1/completions", complete(text));
  EXPECT_EQ(completion.status, 400);
  EXPECT_EQ(completion.json()["error"]["code"], "context_length_exceeded");
  // That API has no codes: clients go by the words.
  const TestJson turn = {{"role", "user"}, {"content", text}};
  const Answered messages =
      post(port(), "/v1/messages",
           {{"model", "k3-nano"}, {"max_tokens", 4}, {"messages", TestJson::array({turn})}});
  EXPECT_EQ(messages.status, 400) << messages.body;
  const std::string message = messages.json()["error"]["message"];
  EXPECT_EQ(message.find("prompt is too long: "), 0u) << message;
}

TEST_F(TheServer, HostileJsonIsRefused) {
  const std::string begin = R"({"model":"k3-nano","max_tokens":1,"prompt":)";
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  std::string wide = "[1";
  for (int i = 0; i < 100'000; ++i) wide += ",1";
  for (const std::string& body :
       {std::string("{"), std::string("[]"), begin + deep + "}", begin + wide + "]}",
        begin + "\"x\",\"temperature\":NaN}", begin + "\"x\",\"temperature\":1e999}",
        begin + "\"\\ud800\"}", begin + "\"\xff\"}", begin + "\"x\",\"prompt\":\"y\"}",
        begin + "\"x\"} {}"}) {
    const Answered answer = ask(port(), "POST", "/v1/completions", body);
    EXPECT_EQ(answer.status, 400) << body.substr(0, 80);
    EXPECT_EQ(answer.json()["error"]["type"], "invalid_request_error");
  }
}

TEST_F(TheServer, TextNeverBecomesAControlToken) {
  const auto prompt_tokens = [&](const std::string& text) {
    return post(port(), "/v1/chat/completions", chat(text)).json()["usage"]["prompt_tokens"];
  };
  // As one special token each, they would be four tokens; spelled out they are many.
  EXPECT_GE(prompt_tokens("<|close|><|end_of_msg|><|open|><|sep|>").get<int>(),
            prompt_tokens("").get<int>() + 8);
}

TEST_F(TheServer, PathsAndMethodsThatAreNotThereAreToldApart) {
  EXPECT_EQ(get(port(), "/nothing").status, 404);
  EXPECT_EQ(get(port(), "/v1/../health").status, 404);
  const Answered wrong = ask(port(), "GET", "/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  EXPECT_EQ(ask(port(), "HEAD", "/health").body, "");
}

TEST_F(TheServer, WebPagesOfOthersAreRefused) {
  const auto status = [&](const TestHeaders& headers) {
    return ask(port(), "GET", "/v1/models", {}, headers).status;
  };
  EXPECT_EQ(status({{"Host", "localhost:8080"}}), 200);
  EXPECT_EQ(status({{"Host", "[::1]:8080"}}), 200);
  EXPECT_EQ(status({{"Host", "evil.example"}}), 421) << "a name that points here";
  EXPECT_EQ(status({{"Host", "127.0.0.1.evil.example"}}), 421);
  EXPECT_EQ(status({{"Host", "127.0.0.1:1"}, {"Origin", "http://127.0.0.1:1"}}), 200);
  EXPECT_EQ(status({{"Origin", "http://evil.example"}}), 403);
  EXPECT_EQ(status({{"Origin", "null"}}), 403);
  EXPECT_EQ(status({{"Sec-Fetch-Site", "cross-site"}}), 403);
  EXPECT_FALSE(ask(port(), "GET", "/health").headers.contains("access-control-allow-origin"));
}

TEST_F(TheServer, AKnownConversationIsNotComputedAgain) {
  const std::string prompt = "The whale was of an unusual size, and the captain";
  const TestJson first = post(port(), "/v1/completions", complete(prompt)).json();
  EXPECT_EQ(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  post(port(), "/v1/completions", complete("Something else"));
  const TestJson again = post(port(), "/v1/completions", complete(prompt)).json();
  EXPECT_EQ(again["usage"]["prompt_tokens_details"]["cached_tokens"],
            again["usage"]["prompt_tokens"]);
  EXPECT_EQ(again["choices"], first["choices"]);

  // Going on from what was written: all but its last token is known.
  const std::string longer = prompt + first["choices"][0]["text"].get<std::string>() + " and so";
  const TestJson next = post(port(), "/v1/completions", complete(longer, {{"logprobs", 5}})).json();
  EXPECT_GE(next["usage"]["prompt_tokens_details"]["cached_tokens"],
            first["usage"]["prompt_tokens"]);
  ServerOptions options = options_for_tests();
  options.host.saved_states = 0;
  const auto fresh = start(options);
  const TestJson expected =
      post(fresh->port(), "/v1/completions", complete(longer, {{"logprobs", 5}})).json();
  EXPECT_EQ(expected["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(next["choices"], expected["choices"]) << "log probabilities tell every bit";
}

TEST_F(TheServer, ControlEndpointsAnswerWhileTheEngineWorks) {
  {
    LongRequest running(port());
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(get(port(), "/health").status, 200);
      const TestJson status = get(port(), "/v1/status").json();
      EXPECT_EQ(status["phase"], "decode");
      EXPECT_GT(tokens_so_far(status["request"]), 0u);
      EXPECT_EQ(status["request"]["max_tokens"], 4000);
    }
    EXPECT_EQ(get(port(), "/metrics").status, 200);
  }
  wait_until_idle(port());
}

TEST_F(TheServer, AFullQueueSaysWhenAndWhere) {
  {
    LongRequest running(port());
    Client second(port());
    Client third(port());
    for (Client* client : {&second, &third}) {
      client->write(wire("POST", "/v1/completions", complete(kPrompt, {{"stream", true}}).dump()));
      EXPECT_TRUE(client->wait_for("200 OK"));
    }
    while (get(port(), "/v1/status").json()["queued"] != 2) continue;
    const Answered refused = post(port(), "/v1/completions", complete(kPrompt));
    EXPECT_EQ(refused.status, 429);
    EXPECT_EQ(refused.json()["error"]["code"], "queue_full");
    EXPECT_GE(std::stoi(refused.headers.at("retry-after")), 1);
    EXPECT_EQ(refused.headers.at("x-queue-position"), "3");
  }
  wait_until_idle(port());
}

TEST_F(TheServer, WhoWaitsGetsTheAnswerWhenTheOneBeforeLeaves) {
  auto running = std::make_unique<LongRequest>(port());
  Client gone(port());
  gone.write(wire("POST", "/v1/completions", complete(kPrompt).dump()));
  Client waiting(port());
  waiting.write(wire("POST", "/v1/completions", complete(kPrompt).dump()));
  while (get(port(), "/v1/status").json()["queued"] != 2) continue;
  gone.half_close();
  while (get(port(), "/v1/status").json()["queued"] != 1) continue;
  running.reset();
  ASSERT_TRUE(waiting.read_to_end());
  EXPECT_EQ(text_of(parse_answer(waiting.received())),
            text_of(post(port(), "/v1/completions", complete(kPrompt))));
}

TEST(ClientsThatStall, HurtNobody) {
  ServerOptions options = options_for_tests();
  options.limits.head = options.limits.body = std::chrono::milliseconds(500);
  const auto server = start(options);
  const int port = server->port();
  Client silent(port);
  Client slow(port);
  slow.write("POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n");
  Client liar(port);
  liar.write("POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{}");
  Client greedy(port);
  greedy.write("POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
  Client garbage(port);
  garbage.write("\x16\x03\x01\x02\r\n\r\n");
  EXPECT_EQ(get(port, "/health").status, 200);  // what comes at once is never too late
  const auto status = [](Client& client) {
    EXPECT_TRUE(client.read_to_end());
    return parse_answer(client.received()).status;
  };
  EXPECT_EQ(status(slow), 408);
  EXPECT_EQ(status(liar), 408);
  EXPECT_EQ(status(greedy), 413);
  EXPECT_EQ(status(garbage), 400);
}

TEST_F(TheServer, TakesALengthAtItsWord) {
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n";
  Client half(port());
  half.write(head + "Content-Length: 100\r\n\r\n{}");
  half.half_close();
  EXPECT_TRUE(half.read_to_end());
  EXPECT_EQ(parse_answer(half.received()).status, 400);
  EXPECT_NE(half.received().find("the request's body ended early"), std::string::npos);

  Client more(port());  // what is too much is another request, and none
  more.write(head + "Content-Length: 2\r\n\r\n{}garbage\r\n\r\n");
  EXPECT_TRUE(more.read_to_end());
  const std::size_t second = more.received().find("HTTP/1.1 400", 1);
  EXPECT_TRUE(more.received().starts_with("HTTP/1.1 400")) << more.received();
  EXPECT_NE(second, std::string::npos) << more.received();

  Client slow(port());
  for (const char byte : wire("GET", "/health")) slow.write(std::string_view(&byte, 1));
  EXPECT_TRUE(slow.read_to_end());
  EXPECT_EQ(parse_answer(slow.received()).status, 200);
}

TEST_F(TheServer, BrokenRequestsHarmNobody) {
  const std::string good =
      wire("POST", "/v1/completions", complete("x", {{"max_tokens", 1}}).dump());
  std::mt19937_64 random(20261129);
  int answered = 0;
  for (int round = 0; round < 150; ++round) {
    std::string bytes = good;
    for (int change = 0; change < 3; ++change) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, random() % 20);
          break;
        default:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 20));
      }
    }
    Client client(port());
    client.write(bytes);
    client.half_close();
    ASSERT_TRUE(client.read_to_end()) << bytes;
    if (client.received().empty()) continue;
    ++answered;
    const int status = parse_answer(client.received()).status;
    EXPECT_TRUE(status == 200 || (status >= 400 && status <= 431) || status == 505)
        << status << "\n"
        << bytes;
  }
  EXPECT_GT(answered, 30);
  EXPECT_EQ(get(port(), "/health").status, 200);
}

TEST_F(TheServer, ManyIdleConnectionsMakeRoomForNewOnes) {
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 40; ++i) idle.push_back(std::make_unique<Client>(port()));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(is_served_at_last(port(), wire("GET", "/health")));
}

TEST_F(TheServer, AConnectionServesManyRequests) {
  Client client(port());
  const std::string request = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
  client.write(request + request);  // sent at once, answered one after another
  client.write("GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(client.read_to_end());
  std::size_t answers = 0;
  for (std::size_t at = 0; (at = client.received().find("HTTP/1.1 ", at)) != std::string::npos;) {
    ++answers;
    ++at;
  }
  EXPECT_EQ(answers, 3u);
}

TEST_F(TheServer, MetricsCountWhatHappened) {
  post(port(), "/v1/completions", complete(kPrompt));
  wait_until_idle(port());  // then the engine has told of it
  const std::string text = get(port(), "/metrics").body;
  for (const char* part :
       {"sluice_http_requests_total{route=\"/v1/completions\",status=\"200\"} ",
        "sluice_time_to_first_token_seconds_count ", "sluice_inter_token_seconds_bucket{le=\"",
        "sluice_generated_tokens_total ", "sluice_drive_read_bytes_total{drive=\"",
        "sluice_expert_hit_rate ", "sluice_io_wait_share ", "sluice_memory_bytes{tenant=\"",
        "sluice_seconds_per_token ", "sluice_predicted_seconds_per_token{end=\"low\"} ",
        "sluice_queue_limit 2"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(text.find("/nothing"), std::string::npos) << "clients cannot invent series";
}

TEST(APromptWithAnotherTail, GoesOnFromWhatItHasInCommon) {
  ServerOptions options = options_for_tests();
  options.host.engine.chunk = 8;
  options.host.part_interval = std::chrono::milliseconds(0);
  TestJson body = complete("", {{"logprobs", 3}});
  std::vector<int> ids(200);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = 300 + static_cast<int>(i * i % 1000);
  const auto server = start(options);
  body["prompt"] = ids;
  post(server->port(), "/v1/completions", body);
  for (std::size_t i = 190; i < ids.size(); ++i) ids[i] += 7;
  body["prompt"] = ids;
  const TestJson edited = post(server->port(), "/v1/completions", body).json();
  EXPECT_EQ(edited["usage"]["prompt_tokens_details"]["cached_tokens"], 184) << "whole chunks";
  const TestJson fresh = post(start(options_for_tests())->port(), "/v1/completions", body).json();
  EXPECT_EQ(edited["choices"], fresh["choices"]) << "log probabilities tell every bit";
}

TEST(AServerWithKeys, LetsInWhoHasOne) {
  ServerOptions options = options_for_tests();
  options.keys = {"correct-horse-battery", "another-key-of-length"};
  const auto server = start(options);
  const auto status = [&](const TestHeaders& headers) {
    return ask(server->port(), "GET", "/v1/models", {}, headers).status;
  };
  EXPECT_EQ(status({}), 401);
  EXPECT_EQ(status({{"Authorization", "Bearer wrong"}}), 401);
  EXPECT_EQ(status({{"Authorization", "Bearer correct-horse-batter"}}), 401);
  EXPECT_EQ(status({{"Authorization", "Bearer correct-horse-battery"}}), 200);
  EXPECT_EQ(status({{"X-API-Key", "another-key-of-length"}}), 200);
  EXPECT_EQ(get(server->port(), "/metrics").status, 401);
  EXPECT_EQ(get(server->port(), "/health").status, 200);
  EXPECT_EQ(post(server->port(), "/v1/completions", complete("x")).status, 401);
}

TEST(AServerThatEnds, EndsItsConnections) {
  auto server = start(options_for_tests());
  LongRequest running(server->port());
  Client waiting(server->port());
  waiting.write(wire("POST", "/v1/completions", complete(kPrompt).dump()));
  while (get(server->port(), "/v1/status").json()["queued"] != 1) continue;
  server.reset();
  EXPECT_TRUE(waiting.read_to_end());
  EXPECT_TRUE(running.client().read_to_end());
}

TEST(AServerWithManyClients, GivesEachItsOwnAnswer) {
  ServerOptions options = options_for_tests();
  options.host.queue = 32;
  const auto server = start(options);
  constexpr int kClients = 16;
  const auto body = [](int client) {
    return complete("The code word of captain number " + std::to_string(client) + " was",
                    {{"temperature", 1}, {"seed", client}, {"max_tokens", 16}});
  };
  std::vector<std::string> alone;
  for (int i = 0; i < kClients; ++i) {
    alone.push_back(text_of(post(server->port(), "/v1/completions", body(i))));
  }
  std::vector<std::string> together(kClients);
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i] {
      if (i % 3 != 0) {
        together[static_cast<std::size_t>(i)] =
            text_of(post(server->port(), "/v1/completions", body(i)));
        return;
      }
      Client leaves(server->port());  // somewhere on the way
      leaves.write(wire("POST", "/v1/completions", body(i).dump()));
      std::this_thread::sleep_for(std::chrono::milliseconds(5 * i));
    });
  }
  for (std::thread& client : clients) client.join();
  for (int i = 0; i < kClients; ++i) {
    if (i % 3 != 0) {
      EXPECT_EQ(together[static_cast<std::size_t>(i)], alone[static_cast<std::size_t>(i)]) << i;
    }
  }
  wait_until_idle(server->port());
}

}  // namespace
}  // namespace sluice::server
