// Conversations as clients send them again, and values that no request may have.
#include <gtest/gtest.h>

#include "server/served.h"

namespace sluice::server {
namespace {

class Histories : public WithServer {};
class Requests : public WithServer {};

std::size_t prompt_tokens(const TestJson& answer) { return answer["usage"]["prompt_tokens"]; }

TEST_F(Histories, WithoutTheReasoningGoOnFromTheFirstPrompt) {
  const TestJson more = {{"reasoning_effort", "low"}, {"temperature", 0}};
  const TestJson first = post(port(), kChat, chat("What is a sluice?", more)).json();
  ASSERT_NE(first["choices"][0]["message"].value("reasoning_content", ""), "") << first;
  TestJson next = chat("What is a sluice?", more);
  next["messages"].push_back({{"role", "assistant"}, {"content", "A gate."}});
  next["messages"].push_back({{"role", "user"}, {"content", "And a lock?"}});
  const TestJson second = post(port(), kChat, next).json();
  EXPECT_GE(cached(second), prompt_tokens(first));
  const auto other = start(options_for_tests());
  const TestJson fresh = post(other->port(), kChat, next).json();
  EXPECT_EQ(cached(fresh), 0u);
  EXPECT_EQ(second["choices"][0]["message"], fresh["choices"][0]["message"]);
}

TEST_F(Requests, WithValuesOutOfRangeAreRefusedByName) {
  const std::vector<std::pair<const char*, TestJson>> cases = {{"top_k", -1},
                                                               {"top_k", 1.5},
                                                               {"top_k", "x"},
                                                               {"min_p", 2},
                                                               {"min_p", -0.5},
                                                               {"min_p", "x"},
                                                               {"seed", 1.5},
                                                               {"seed", "x"},
                                                               {"presence_penalty", 3},
                                                               {"top_p", 1.01},
                                                               {"presence_penalty", -3},
                                                               {"frequency_penalty", 2.5}};
  for (const auto& [name, value] : cases) {
    for (const Answered& answer :
         {post(port(), kChat, chat("x", {{name, value}})),
          post(port(), "/v1/completions", complete("x", {{name, value}}))}) {
      EXPECT_EQ(answer.status, 400) << name << " " << value;
      EXPECT_EQ(answer.json()["error"]["param"], name) << answer.body;
      EXPECT_EQ(answer.json()["error"]["type"], "invalid_request_error");
    }
  }
}

TEST_F(Requests, WithoutAPromptAreRefused) {
  const TestJson nothing = TestJson::array();
  for (const TestJson& prompt :
       {TestJson(""), nothing, TestJson::array({""}), TestJson::array({nothing}),
        TestJson::array({"x", ""}), TestJson(nullptr), TestJson(7)}) {
    TestJson body = complete("x");
    body["prompt"] = prompt;
    const Answered answer = post(port(), "/v1/completions", body);
    EXPECT_EQ(answer.status, 400) << prompt;
    EXPECT_EQ(answer.json()["error"]["param"], "prompt") << answer.body;
  }
}

}  // namespace
}  // namespace sluice::server
