// Clients that leave: while the engine stands in a layer, for its drive gives nothing. What they
// wanted stops within one layer, and what waited is dropped.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "server/gate.h"
#include "server/served.h"

namespace sluice::server {
namespace {

/// With so little memory that each layer needs the drive, which has a gate.
std::unique_ptr<Server> start_behind(Gate& gate, ServerOptions options = {}) {
  options.host.engine.model = SLUICE_SOURCE_DIR "/models/k3-nano";
  options.host.engine.threads = 1;
  options.host.engine.context = 512;
  options.host.engine.ram = std::uint64_t{1};  // refused, with the smallest that works
  options.port = 0;
  options.host.engine.wrap_reader = behind(gate);
  auto server = Server::start(options);
  EXPECT_FALSE(server);
  // The test's own memory may grow from one try to the next.
  for (int attempt = 0; attempt < 8 && !server; ++attempt) {
    const std::string& message = server.error().message;
    options.host.engine.ram = std::stoull(message.substr(message.find("--ram ") + 6)) << 20;
    server = Server::start(options);
  }
  EXPECT_TRUE(server) << server.error().message;
  gate.shut();
  return std::move(*server);
}

TestJson request() {
  return {{"model", "k3-nano"},
          {"prompt", "It was on a dreary night of November"},
          {"max_tokens", 400},
          {"logit_bias", never_ending()},
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

/// Whether the server sees one more leave than before. The engine stands, so it has the time.
bool is_seen_to_leave(int port, int before) {
  const auto deadline = std::chrono::steady_clock::now() + Client::kPatience;
  while (left(port) == before && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return left(port) == before + 1;
}

/// Layers that were begun for the running request so far.
std::size_t progress(const TestJson& status) {
  const TestJson& request = status["request"];
  return request["tokens"].get<std::size_t>() * status["layers"].get<std::size_t>() +
         request["layer"].get<std::size_t>();
}

class ALeavingClient : public ::testing::TestWithParam<const char*> {};

TEST_P(ALeavingClient, StopsTheEngineWithinALayer) {
  Gate gate;
  const auto server = start_behind(gate);
  const OpenInTheEnd opened(gate);
  const int port = server->port();
  {
    Client client(port);
    client.write(wire("POST", "/v1/completions", request().dump()));
    ASSERT_TRUE(go_on_until(gate, [&] {
      const TestJson now = status_of(port);
      if (now["phase"] != GetParam()) return false;
      const TestJson& layer = now["request"]["layer"];  // not the last, of the pass before
      return layer > 1 && layer < 6;
    }));
  }
  ASSERT_TRUE(is_seen_to_leave(port, 0));
  std::optional<std::size_t> first;
  std::size_t last = 0;
  for (TestJson now; (now = status_of(port))["phase"] != "idle"; gate.pass()) {
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
  Gate gate;
  const auto server = start_behind(gate);
  const OpenInTheEnd opened(gate);
  const int port = server->port();
  for (const std::string& more : {std::string("\r\n"), wire("GET", "/health")}) {
    gate.shut();
    const int before = left(port);
    {
      Client client(port);
      TestJson whole = request();
      whole["stream"] = false;
      client.write(wire("POST", "/v1/completions", whole.dump()));
      ASSERT_TRUE(go_on_until(gate, [&] { return status_of(port)["phase"] == "decode"; }));
      client.write(more);
    }
    EXPECT_TRUE(is_seen_to_leave(port, before)) << more;
    gate.open();
    wait_until_idle(port);
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
  Gate gate;
  const auto server = start_behind(gate, options);
  const OpenInTheEnd opened(gate);
  const int port = server->port();
  {
    Client client(port);
    client.write(wire("POST", "/v1/completions", long_request().dump()));
    ASSERT_TRUE(go_on_until(gate, [&] {
      const TestJson now = status_of(port);
      return now["phase"] == "prefill" && now["request"]["prompt_tokens_done"] >= 64;
    }));
  }
  ASSERT_TRUE(is_seen_to_leave(port, 0));
  gate.open();
  wait_until_idle(port);
  const TestJson again = post(port, "/v1/completions", long_request()).json();
  const TestJson fresh =
      post(start(options_for_tests())->port(), "/v1/completions", long_request()).json();
  EXPECT_GE(fresh["usage"]["prompt_tokens"], 120);
  EXPECT_GE(again["usage"]["prompt_tokens_details"]["cached_tokens"], 64);
  EXPECT_EQ(again["choices"], fresh["choices"]);
}

TEST(AClientThatWaits, IsDroppedFromTheQueueWhenItLeaves) {
  Gate gate;
  const auto server = start_behind(gate);
  const OpenInTheEnd opened(gate);
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
  ASSERT_TRUE(is_seen_to_leave(port, 0));
  const TestJson now = status_of(port);
  EXPECT_EQ(now["queued"], 0);
  EXPECT_EQ(now["request"]["id"], running) << "the one that runs is not touched";
}

}  // namespace
}  // namespace sluice::server
