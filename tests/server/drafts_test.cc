// Tokens that are guessed and fed behind others, behind the server: the same answers.
#include "server/served.h"

namespace sluice::server {
namespace {

/// What k3-nano goes on with in circles.
const std::string kCircles = "def __init__(self";

std::unique_ptr<Server> start_with(std::size_t drafts) {
  ServerOptions options = options_for_tests();
  options.host.engine.drafts = drafts;
  options.host.engine.judges_drafts = false;
  return start(options);
}

std::string metric(int port, const std::string& name) {
  const std::string text = get(port, "/metrics").body;
  const std::size_t at = text.find("\n" + name + " ");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size() + 2;
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST(Drafts, ChangeNoAnswer) {
  const auto plain = start_with(0);
  const auto drafting = start_with(4);
  ASSERT_TRUE(plain && drafting);
  for (const TestJson& more :
       {TestJson{{"temperature", 0}}, TestJson{{"temperature", 0.7}, {"seed", 5}},
        TestJson{{"temperature", 0}, {"logprobs", 3}},
        TestJson{{"temperature", 1}, {"n", 3}, {"seed", 9}}}) {
    TestJson body = complete(kCircles, more);
    body["max_tokens"] = 40;
    const Answered expected = post(plain->port(), "/v1/completions", body);
    const Answered found = post(drafting->port(), "/v1/completions", body);
    ASSERT_EQ(expected.status, 200) << expected.body;
    ASSERT_EQ(found.status, 200) << found.body;
    EXPECT_EQ(found.json()["choices"], expected.json()["choices"]) << more.dump();
    EXPECT_EQ(found.json()["usage"], expected.json()["usage"]) << more.dump();
  }
  EXPECT_EQ(metric(plain->port(), "sluice_drafted_tokens_total"), "0");
  EXPECT_NE(metric(drafting->port(), "sluice_accepted_drafts_total"), "0");
  EXPECT_NE(metric(drafting->port(), "sluice_accepted_drafts_total"), "");
}

TEST(Drafts, LeaveTheConversationAsItIs) {
  const auto plain = start_with(0);
  const auto drafting = start_with(4);
  ASSERT_TRUE(plain && drafting);
  std::string text = kCircles;
  for (int turn = 0; turn < 3; ++turn) {
    TestJson body = complete(text, {{"temperature", 0}});
    body["max_tokens"] = 24;
    const Answered expected = post(plain->port(), "/v1/completions", body);
    const Answered found = post(drafting->port(), "/v1/completions", body);
    ASSERT_EQ(found.status, 200) << found.body;
    EXPECT_EQ(text_of(found), text_of(expected)) << turn;
    EXPECT_EQ(cached(found.json()), cached(expected.json())) << turn;
    text += text_of(found) + " Alice";
  }
}

}  // namespace
}  // namespace sluice::server
