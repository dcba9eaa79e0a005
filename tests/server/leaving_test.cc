// Clients that leave: on drives so slow that a layer takes a while, what they wanted stops within
// one layer, and what waited is dropped.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "io/fault_reader.h"
#include "server/served.h"

namespace sluice::server {
namespace {

std::unique_ptr<Server> start_slow(ServerOptions options = {},
                                   std::chrono::microseconds delay = std::chrono::milliseconds(8)) {
  options.host.engine.model = SLUICE_SOURCE_DIR "/models/k3-nano";
  options.host.engine.threads = 1;
  options.host.engine.context = 512;
  options.host.engine.ram = std::uint64_t{1};  // refused, with the smallest that works
  options.port = 0;
  options.host.engine.wrap_reader = [delay](std::unique_ptr<io::Reader> inner) {
    return io::make_fault_reader(std::move(inner), {.max_delay = delay});
  };
  auto server = Server::start(options);
  EXPECT_FALSE(server);
  // The test's own memory may grow from one try to the next.
  for (int attempt = 0; attempt < 8 && !server; ++attempt) {
    const std::string& message = server.error().message;
    options.host.engine.ram = std::stoull(message.substr(message.find("--ram ") + 6)) << 20;
    server = Server::start(options);
  }
  EXPECT_TRUE(server) << server.error().message;
  return std::move(*server);
}

TestJson request() {
  return {{"model", "k3-nano"},
          {"prompt", "It was on a dreary night of November"},
          {"max_tokens", 400},
          {"stream", true}};
}

TestJson status_of(int port) { return get(port, "/v1/status").json(); }

/// Clients that the server has seen leave.
int left(int port) {
  const std::string metrics = get(port, "/metrics").body;
  const std::string name = "\nsluice_clients_left_total ";
  const std::size_t at = metrics.find(name);
  return at == std::string::npos ? 0 : std::stoi(metrics.substr(at + name.size()));
}

/// Layers that were begun for the running request so far.
std::size_t progress(const TestJson& status) {
  const TestJson& request = status["request"];
  return request["tokens"].get<std::size_t>() * status["layers"].get<std::size_t>() +
         request["layer"].get<std::size_t>();
}

class ALeavingClient : public ::testing::TestWithParam<const char*> {};

TEST_P(ALeavingClient, StopsTheEngineWithinALayer) {
  const auto server = start_slow();
  const int port = server->port();
  {
    Client client(port);
    client.write(wire("POST", "/v1/completions", request().dump()));
    while (true) {
      const TestJson now = status_of(port);
      if (now["phase"] == GetParam() && now["request"]["layer"] > 1) break;
    }
  }
  while (left(port) == 0) continue;
  std::optional<std::size_t> first;
  std::size_t last = 0;
  for (TestJson now; (now = status_of(port))["phase"] != "idle";) {
    ASSERT_EQ(now["phase"], GetParam());
    last = progress(now);
    if (!first) first = last;
  }
  if (first) {
    EXPECT_LE(last, *first + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Phases, ALeavingClient, ::testing::Values("prefill", "decode"),
                         [](const auto& phase) { return std::string(phase.param); });

TEST(AClientThatLeaves, IsSeenToLeaveBehindWhatNobodyHasRead) {
  const auto server = start_slow({}, std::chrono::microseconds(500));
  const int port = server->port();
  for (const std::string& more : {std::string("\r\n"), wire("GET", "/health")}) {
    const int before = left(port);
    {
      Client client(port);
      TestJson whole = request();
      whole["stream"] = false;
      client.write(wire("POST", "/v1/completions", whole.dump()));
      int looks = 100'000;  // should it never be seen, the test fails below
      while (status_of(port)["phase"] != "decode" && --looks > 0) continue;
      client.write(more);
    }
    while (status_of(port)["phase"] != "idle" && left(port) == before) continue;
    EXPECT_EQ(left(port), before + 1) << more;
  }
}

/// A prompt of some 150 tokens.
TestJson long_request() {
  std::string text;
  for (int i = 0; i < 16; ++i) text += "It was on a dreary night of November " + std::to_string(i);
  return {{"model", "k3-nano"}, {"prompt", text}, {"max_tokens", 6}, {"temperature", 0}};
}

TEST(AClientThatLeavesALongPrompt, FindsWhatWasReadOfItWhenItComesAgain) {
  ServerOptions options;
  options.host.engine.chunk = 8;
  options.host.saved_states = std::uint64_t{8} << 20;
  options.host.part_interval = std::chrono::milliseconds(0);
  const auto server = start_slow(options, std::chrono::microseconds(500));
  const int port = server->port();
  {
    Client client(port);
    client.write(wire("POST", "/v1/completions", long_request().dump()));
    while (true) {
      const TestJson now = status_of(port)["request"];
      if (!now.is_null() && now["prompt_tokens_done"] >= 64) break;
    }
  }
  while (status_of(port)["phase"] != "idle") continue;
  const TestJson again = post(port, "/v1/completions", long_request()).json();
  const TestJson fresh =
      post(start(options_for_tests())->port(), "/v1/completions", long_request()).json();
  EXPECT_GE(fresh["usage"]["prompt_tokens"], 120);
  EXPECT_GE(again["usage"]["prompt_tokens_details"]["cached_tokens"], 64);
  EXPECT_EQ(again["choices"], fresh["choices"]);
}

TEST(AClientThatWaits, IsDroppedFromTheQueueWhenItLeaves) {
  const auto server = start_slow();
  const int port = server->port();
  Client first(port);
  first.write(wire("POST", "/v1/completions", request().dump()));
  while (status_of(port)["phase"] == "idle") continue;
  const std::string running = status_of(port)["request"]["id"];
  {
    Client second(port);
    second.write(wire("POST", "/v1/completions", request().dump()));
    while (status_of(port)["queued"] != 1) continue;
  }
  while (left(port) == 0) continue;
  const TestJson now = status_of(port);
  EXPECT_EQ(now["queued"], 0);
  EXPECT_EQ(now["request"]["id"], running) << "the one that runs is not touched";
}

}  // namespace
}  // namespace sluice::server
