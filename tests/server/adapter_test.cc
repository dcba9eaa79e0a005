// Adapters behind the server: asked for by name, and no state of one is another's.
#include <sys/stat.h>

#include "engine/adapter_support.h"

#include "base/size.h"
#include "server/conversations.h"
#include "server/folder.h"
#include "server/served.h"

namespace sluice::server {
namespace {

const std::vector<std::string> kTargets = {"q_proj", "v_proj", "o_proj"};

TestJson completion(int port, const std::string& model, const std::string& prompt = kPrompt) {
  const Answered answer =
      post(port, "/v1/completions", complete(prompt, {{"model", model}, {"max_tokens", 12}}));
  EXPECT_EQ(answer.status, 200) << answer.body;
  return answer.json();
}

std::string text_of(const TestJson& answer) { return answer["choices"][0]["text"]; }

class Adapters : public ::testing::Test {
 protected:
  ServerOptions options() const {
    ServerOptions options = options_for_tests();
    options.host.engine.adapters = {{"one", one_.folder()}, {"two", two_.folder()}};
    return options;
  }

  const engine::TestAdapter one_{kNano, kTargets, 1};
  const engine::TestAdapter two_{kNano, kTargets, 2};
};

TEST_F(Adapters, AreListedAsModels) {
  const auto server = start(options());
  ASSERT_NE(server, nullptr);
  const int port = server->port();
  const TestJson models = get(port, "/v1/models").json()["data"];
  ASSERT_EQ(models.size(), 3u);
  EXPECT_EQ(models[0]["id"], "k3-nano");
  EXPECT_FALSE(models[0].contains("parent"));
  EXPECT_EQ(models[2]["id"], "two");
  EXPECT_EQ(models[2]["parent"], "k3-nano");
  EXPECT_EQ(get(port, "/v1/models/one").json()["id"], "one");
  EXPECT_EQ(get(port, "/v1/models/three").status, 404);
  const Answered unknown = post(port, "/v1/completions", complete(kPrompt, {{"model", "three"}}));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_NE(unknown.body.find("two"), std::string::npos) << "what there is, is said";
}

TEST_F(Adapters, AnswerUnderTheirNamesInEveryApi) {
  const auto server = start(options());
  ASSERT_NE(server, nullptr);
  const int port = server->port();
  EXPECT_EQ(completion(port, "one")["model"], "one");
  EXPECT_EQ(completion(port, "k3-nano")["model"], "k3-nano");
  const Answered chatted = post(port, "/v1/chat/completions", chat("Hello", {{"model", "two"}}));
  EXPECT_EQ(chatted.json()["model"], "two") << chatted.body;
  const Answered message = post(port, "/v1/messages",
                                {{"model", "two"},
                                 {"max_tokens", 8},
                                 {"messages", {{{"role", "user"}, {"content", "Hello"}}}}});
  EXPECT_EQ(message.json()["model"], "two") << message.body;
}

TEST_F(Adapters, HaveAnswersThatHangOnNothingThatCameBefore) {
  const auto server = start(options());
  ASSERT_NE(server, nullptr);
  std::map<std::string, std::string> first;
  for (const std::string name : {"one", "k3-nano", "two"}) {
    const TestJson answer = completion(server->port(), name);
    EXPECT_EQ(cached(answer), 0u) << name << " is handed no state of another";
    first[name] = text_of(answer);
  }
  EXPECT_NE(first["one"], first["k3-nano"]);
  EXPECT_NE(first["one"], first["two"]);
  for (const std::string name : {"two", "one", "k3-nano", "one"}) {
    const TestJson again = completion(server->port(), name);
    EXPECT_EQ(text_of(again), first[name]) << name;
    EXPECT_GT(cached(again), 0u) << name << " finds its own state";
  }
  const auto other = start(options());
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(text_of(completion(other->port(), "two")), first["two"]) << "whatever the order";
}

TEST_F(Adapters, WithTheModelsOwnNameAreRefused) {
  ServerOptions bad = options();
  bad.host.engine.adapters[0].name = "k3-nano";
  const auto server = Server::start(std::move(bad));
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().kind, ErrorKind::usage);
}

TEST_F(Adapters, WhoseWeightsAreNoFileAreRefused) {
  const auto weights = one_.folder() / "adapter_model.safetensors";
  std::filesystem::remove(weights);
  ASSERT_EQ(::mkfifo(weights.c_str(), 0600), 0);
  const auto server = Server::start(options());
  ASSERT_FALSE(server);
  EXPECT_NE(server.error().message.find("adapter_model.safetensors: not a regular file in"),
            std::string::npos)
      << server.error().message;
}

/// Reads a prompt as a request does. Returns how much of it was known.
std::size_t read_prompt(const engine::TestAdapter& adapter, std::uint32_t number,
                        const std::filesystem::path& folder) {
  engine::EngineOptions options;
  options.model = kNano;
  options.threads = 1;
  options.context = 256;
  options.ram = 512 * kMiB;
  options.saved_states = 16 * kMiB;
  options.identify = true;
  options.adapters = {{"x", adapter.folder()}};
  const auto engine = engine::Engine::open(options);
  EXPECT_TRUE(engine) << engine.error().message;
  const auto all = Conversations::open(
      **engine, {16 * kMiB, folder / "states", 64 * kMiB, (*engine)->shape().vocabulary, 1});
  EXPECT_TRUE(all) << all.error().message;
  (*all)->use_adapter(number);
  std::vector<std::int32_t> prompt;
  for (std::int32_t id = 100; id < 140; ++id) prompt.push_back(id);
  EXPECT_TRUE((*all)->recall(prompt));
  const std::size_t known = (*all)->held().size();
  if (known == prompt.size()) return known;
  const auto logits = (*engine)->feed((*all)->sequence(), std::span(prompt).subspan(known));
  EXPECT_TRUE(logits);
  (*all)->held() = prompt;
  (*all)->keep(*logits);
  (*all)->flush();
  return known;
}

TEST_F(Adapters, FindOnDiskWhatTheyWroteAndNothingElse) {
  const Folder folder;
  EXPECT_EQ(read_prompt(one_, 1, folder.path()), 0u);
  EXPECT_EQ(read_prompt(two_, 1, folder.path()), 0u) << "another adapter with the same number";
  EXPECT_EQ(read_prompt(one_, 0, folder.path()), 0u) << "the model without it";
  EXPECT_EQ(read_prompt(one_, 1, folder.path()), 40u);
  EXPECT_EQ(read_prompt(two_, 1, folder.path()), 40u);
  EXPECT_EQ(read_prompt(two_, 0, folder.path()), 40u) << "the model is the same beside both";
}

}  // namespace
}  // namespace sluice::server
