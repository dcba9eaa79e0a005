// A server that ends at any moment: what was known and written before is not computed again, and no
// text differs.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "server/client.h"
#include "server/folder.h"
#include "server/server.h"

namespace sluice::server {
namespace {

ServerOptions options_for(const std::filesystem::path& folder) {
  ServerOptions options;
  options.host.engine.model = SLUICE_SOURCE_DIR "/models/k3-nano";
  options.host.engine.threads = 1;
  options.host.engine.ram = std::uint64_t{512} << 20;
  options.port = 0;
  options.state_folder = folder;
  return options;
}

TestJson request(const std::string& prompt, std::size_t tokens) {
  // No end token is ever the likeliest: answers have the length that was asked for.
  TestJson bias = TestJson::object();
  for (int id = 3840; id < 4096; ++id) bias[std::to_string(id)] = -100;
  return {{"model", "k3-nano"}, {"prompt", prompt},   {"max_tokens", tokens},
          {"seed", 11},         {"logit_bias", bias}, {"frequency_penalty", 0.2},
          {"temperature", 0.9}, {"logprobs", 2}};
}

std::size_t cached(const TestJson& answer) {
  return answer["usage"]["prompt_tokens_details"]["cached_tokens"].get<std::size_t>();
}

const std::string kPrompt = "It was on a dreary night of November, that I beheld";

TEST(ARestartedServer, GoesOnWithAConversation) {
  const Folder folder;
  TestJson first;
  TestJson next;
  {
    const auto server = std::move(*Server::start(options_for(folder.path() / "a")));
    first = post(server->port(), "/v1/completions", request(kPrompt, 200)).json();
    const std::string so_far = kPrompt + first["choices"][0]["text"].get<std::string>();
    next = request(so_far + " And then", 20);
  }
  const auto server = std::move(*Server::start(options_for(folder.path() / "a")));
  const TestJson known = post(server->port(), "/v1/completions", next).json();
  const auto fresh = std::move(*Server::start(options_for(folder.path() / "b")));
  const TestJson computed = post(fresh->port(), "/v1/completions", next).json();
  EXPECT_EQ(known["choices"], computed["choices"]);
  EXPECT_EQ(cached(computed), 0u);
  // Where the text's end and what follows it become one token, the answer's end is another one.
  EXPECT_GE(cached(known), first["usage"]["prompt_tokens"].get<std::size_t>());
}

/// Tokens whose time since the one before was measured: those that this server computed itself.
std::size_t computed(int port) {
  const std::string metrics = get(port, "/metrics").body;
  const std::string name = "\nsluice_inter_token_seconds_count ";
  return std::stoul(metrics.substr(metrics.find(name) + name.size()));
}

TEST(ARestartedServer, GoesOnWithALongAnswerThatIsAskedForAgain) {
  const Folder folder;
  TestJson body = request(kPrompt, 260);
  body["n"] = 2;
  TestJson expected;
  {
    const auto server = std::move(*Server::start(options_for(folder.path() / "a")));
    Client client(server->port());
    client.write(wire("POST", "/v1/completions", body.dump()));
    for (std::size_t choice = 0, tokens = 0; choice < 1 || tokens < 140;) {
      const TestJson now = get(server->port(), "/v1/status").json()["request"];
      if (now.is_null()) continue;
      choice = now["choice"];
      tokens = now["tokens"];
    }
    // What a crash at this moment would leave.
    std::filesystem::create_directory(folder.path() / "b");
    std::filesystem::copy(folder.path() / "a" / "states", folder.path() / "b" / "states",
                          std::filesystem::copy_options::recursive);
    ASSERT_TRUE(client.read_to_end());
    expected = parse_answer(client.received()).json();
  }
  const auto server = std::move(*Server::start(options_for(folder.path() / "b")));
  const TestJson found = post(server->port(), "/v1/completions", body).json();
  EXPECT_EQ(found["choices"], expected["choices"]);
  EXPECT_EQ(found["usage"]["completion_tokens"], 520);
  EXPECT_LE(computed(server->port()), 260u - 128u) << "the rest was known";
  EXPECT_GT(computed(server->port()), 0u);
  const std::string states = folder.path() / "b" / "states";
  for (const auto& each : std::filesystem::directory_iterator(states)) {
    EXPECT_EQ(each.path().string().find("answer"), std::string::npos) << "it has arrived";
  }
}

}  // namespace
}  // namespace sluice::server
