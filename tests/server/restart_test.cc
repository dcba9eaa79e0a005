// A server that ends at any moment: what was known and written before is not computed again, and no
// text differs.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "server/client.h"
#include "server/folder.h"
#include "server/served.h"

namespace sluice::server {
namespace {

ServerOptions options_for(const std::filesystem::path& folder) {
  ServerOptions options;
  options.host.engine.model = SLUICE_SOURCE_DIR "/models/k3-nano";
  options.host.engine.threads = 1;
  options.host.engine.ram = std::uint64_t{512} << 20;
  options.port = 0;
  options.state_folder = folder;
  options.host.state_write = std::uint64_t{1} << 40;  // as fast as the drive, whatever there is
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

TEST(ARestartedServer, GoesOnWithAConversation) {
  const Folder folder;
  TestJson first;
  TestJson next;
  {
    const auto server = std::move(*Server::start(options_for(folder.path() / "a")));
    first = post(server->port(), "/v1/completions", request(kPrompt, 200)).json();
    const std::string so_far = kPrompt + first["choices"][0]["text"].get<std::string>();
    // The prompt's state comes to the disk, and is counted.
    while (get(server->port(), "/v1/status").json()["memory"]["saved_written_bytes"] == 0) continue;
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

std::size_t answers_in(const std::filesystem::path& states) {
  std::size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator(states)) {
    const std::string name = each.path().filename();
    count += name.find("-answer-") != std::string::npos && name.ends_with(".state") ? 1 : 0;
  }
  return count;
}

/// What a crash at this moment would leave; files come and go meanwhile.
void copy_states(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::filesystem::create_directories(to);
  for (const auto& each : std::filesystem::directory_iterator(from)) {
    std::error_code gone;
    std::filesystem::copy(each.path(), to / each.path().filename(), gone);
  }
}

TEST(ARestartedServer, GoesOnWithALongAnswerThatIsAskedForAgain) {
  constexpr std::size_t kTokens = 1000;  // so many that the drive keeps up with some of them
  const Folder folder;
  TestJson body = request(kPrompt, kTokens);
  body["n"] = 2;
  TestJson expected;
  {
    const auto server = std::move(*Server::start(options_for(folder.path() / "a")));
    Client client(server->port());
    client.write(wire("POST", "/v1/completions", body.dump()));
    const std::filesystem::path states = folder.path() / "a" / "states";
    while (answers_in(states) < 2) continue;  // the first is whole then
    copy_states(states, folder.path() / "b" / "states");
    ASSERT_TRUE(client.read_to_end());
    expected = parse_answer(client.received()).json();
  }
  const auto server = std::move(*Server::start(options_for(folder.path() / "b")));
  const TestJson found = post(server->port(), "/v1/completions", body).json();
  EXPECT_EQ(found["choices"], expected["choices"]);
  EXPECT_EQ(found["usage"]["completion_tokens"], 2 * kTokens);
  EXPECT_LE(computed(server->port()), kTokens - 64) << "the rest was known";
  EXPECT_GT(computed(server->port()), 0u);
  const std::string states = folder.path() / "b" / "states";
  for (const auto& each : std::filesystem::directory_iterator(states)) {
    EXPECT_EQ(each.path().string().find("answer"), std::string::npos) << "it has arrived";
  }
}

}  // namespace
}  // namespace sluice::server
