// The page, and what it watches.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "server/served.h"
#include "weights/expert_activity.h"

namespace sluice::server {
namespace {

class ThePage : public WithServer {};

TEST_F(ThePage, NeedsNothingFromElsewhere) {
  for (const auto& [path, type] : {std::pair{"/", "text/html; charset=utf-8"},
                                   {"/page.css", "text/css; charset=utf-8"},
                                   {"/page.js", "text/javascript; charset=utf-8"}}) {
    const Answered file = get(port(), path);
    EXPECT_EQ(file.status, 200) << path;
    EXPECT_EQ(file.headers.at("content-type"), type);
    EXPECT_EQ(file.headers.at("x-content-type-options"), "nosniff");
    EXPECT_EQ(file.headers.at("referrer-policy"), "no-referrer");
    const std::string& policy = file.headers.at("content-security-policy");
    EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
    EXPECT_NE(policy.find("script-src 'self';"), std::string::npos);
    EXPECT_NE(policy.find("require-trusted-types-for 'script'"), std::string::npos);
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
    for (const char* foreign : {"src=\"http", "href=\"http", "url(", "@import", "innerHTML"}) {
      EXPECT_EQ(file.body.find(foreign), std::string::npos) << path << " has " << foreign;
    }
  }
  const std::string page = get(port(), "/").body;
  EXPECT_NE(page.find("<title>Sluice</title>"), std::string::npos);
  EXPECT_TRUE(page.ends_with("</html>\n"));
  EXPECT_EQ(page.find(" style=\""), std::string::npos) << "the policy forbids it";
  EXPECT_EQ(page.find(" onclick=\""), std::string::npos);
}

TEST_F(ThePage, HasEveryElementThatItsScriptLooksFor) {
  const std::string page = get(port(), "/").body;
  const std::string script = get(port(), "/page.js").body;
  const std::string call = "byId(\"";
  std::size_t found = 0;
  for (std::size_t at = 0; (at = script.find(call, at)) != std::string::npos; ++found) {
    at += call.size();
    const std::string id = script.substr(at, script.find('"', at) - at);
    EXPECT_NE(page.find("id=\"" + id + "\""), std::string::npos) << id;
  }
  EXPECT_GT(found, 50u);
}

/// The words of /v1/experts.
std::vector<std::uint32_t> words(const Answered& answer) {
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("content-type"), "application/octet-stream");
  EXPECT_EQ(answer.body.size() % 4, 0u);
  std::vector<std::uint32_t> words(answer.body.size() / 4);
  for (std::size_t i = 0; i < answer.body.size(); ++i) {
    words[i / 4] |= std::uint32_t{static_cast<unsigned char>(answer.body[i])} << 8 * (i % 4);
  }
  return words;
}

/// Whether the reads of an expert are under way.
bool any_is_read(const std::vector<std::uint32_t>& words) {
  return std::any_of(words.begin() + 4, words.end(), [](std::uint32_t cell) {
    return (cell & weights::ExpertActivity::kReading) != 0;
  });
}

TEST_F(ThePage, SeesWhichExpertsAreUsed) {
  post(port(), "/v1/completions", complete(kPrompt));
  wait_until_idle(port());
  std::vector<std::uint32_t> all = words(get(port(), "/v1/experts"));
  ASSERT_GT(all.size(), 4u);
  const auto deadline = std::chrono::steady_clock::now() + Client::kPatience;
  while (any_is_read(all)) {  // what was guessed comes late
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    all = words(get(port(), "/v1/experts"));
    ASSERT_GT(all.size(), 4u);
  }
  EXPECT_EQ(all[0], 9u);
  EXPECT_EQ(all[1], 96u);
  std::set<std::uint32_t> layers;
  for (std::size_t i = 4; i < all.size(); ++i) layers.insert(all[i] / 16 / all[1]);
  EXPECT_EQ(layers.size(), 8u) << "the first layer has no experts";
  EXPECT_EQ(*layers.begin(), 1u);

  const std::string now = std::to_string(all[2] + (std::uint64_t{all[3]} << 32));
  EXPECT_EQ(words(get(port(), "/v1/experts?since=" + now)).size(), 4u) << "nothing has happened";
  post(port(), "/v1/completions", complete(kPrompt, {{"max_tokens", 2}, {"temperature", 1}}));
  const std::vector<std::uint32_t> later = words(get(port(), "/v1/experts?since=" + now));
  EXPECT_GT(later.size(), 4u);
  EXPECT_LT(later.size(), all.size()) << "only what changed";
  for (const char* wrong : {"x", "-1", "1x", "", "99999999999999999999"}) {
    const Answered refused = get(port(), std::string("/v1/experts?since=") + wrong);
    EXPECT_EQ(refused.status, 400) << wrong;
    EXPECT_EQ(refused.json()["error"]["param"], "since");
  }
}

TEST_F(ThePage, SeesTheMachineAtWork) {
  {
    LongRequest running(port());
    const TestJson status = get(port(), "/v1/status").json();
    EXPECT_EQ(status["phase"], "decode");
    EXPECT_EQ(status["layers"], 9);
    EXPECT_EQ(status["request"]["max_tokens"], 4000);
    EXPECT_GT(tokens_so_far(status["request"]), 0u);
    EXPECT_EQ(status["experts"]["count"], 8 * 96);
    EXPECT_GT(status["experts"]["hits"].get<int>() + status["experts"]["misses"].get<int>(), 0);
    ASSERT_EQ(status["drives"].size(), 1u);
    EXPECT_GT(status["drives"][0]["bytes"], 0);
    EXPECT_TRUE(status["drives"][0]["limit_bytes_per_second"].is_null())
        << "its files are too small to measure a drive with";
    std::uint64_t held = 0;
    for (const auto& [tenant, bytes] : status["memory"]["tenants"].items()) {
      held += bytes.get<std::uint64_t>();
    }
    EXPECT_GT(held, 0u);
    EXPECT_LE(held, status["memory"]["budget_bytes"]);
    EXPECT_GT(status["memory"]["resident_bytes"], 0);
    EXPECT_GT(words(get(port(), "/v1/experts")).size(), 4u);
  }
  wait_until_idle(port());
  const TestJson after = get(port(), "/v1/status").json();
  EXPECT_TRUE(after["request"].is_null());
}

TEST_F(ThePage, IsToldItsPlaceInTheQueueAtOnce) {
  post(port(), "/v1/completions", complete(kPrompt));  // how long a task takes is known then
  auto running = std::make_unique<LongRequest>(port());
  const std::string body = complete(kPrompt, {{"stream", true}}).dump();
  Client second(port());
  second.write(wire("POST", "/v1/completions", body));
  EXPECT_TRUE(second.wait_for("\n: 1 before this one, about "));
  Client third(port());
  third.write(wire("POST", "/v1/completions", body));
  EXPECT_TRUE(third.wait_for("\n: 2 before this one, about "));
  second.half_close();
  EXPECT_TRUE(third.wait_for("\n: 1 before this one, about "));
  running.reset();
  EXPECT_TRUE(third.wait_for("[DONE]"));
  wait_until_idle(port());
}

TEST(AServerWithKeys, HasThePageForAllAndTheRestForWhoHasOne) {
  ServerOptions options = options_for_tests();
  options.keys = {"correct-horse-battery"};
  const auto server = start(options);
  EXPECT_EQ(get(server->port(), "/").status, 200);
  EXPECT_EQ(get(server->port(), "/page.js").status, 200);
  EXPECT_EQ(get(server->port(), "/v1/status").status, 401);
  EXPECT_EQ(get(server->port(), "/v1/experts").status, 401);
}

}  // namespace
}  // namespace sluice::server
