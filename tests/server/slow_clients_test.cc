// Requests that come in slowly do not keep others out, and those that come in well are not hurt.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/client.h"
#include "server/served.h"

namespace sluice::server {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr std::size_t kThreads = 10;  // of connections, with a queue of two

/// Nothing ends by itself: what ends, ends because others wait.
ServerOptions patient_options() {
  ServerOptions options = options_for_tests();
  options.limits.head = options.limits.body = options.limits.idle = hours(1);
  options.limits.patience = milliseconds(20);
  return options;
}

using Clients = std::vector<std::unique_ptr<Client>>;

/// So many that send this and then nothing.
Clients stalled(int port, std::size_t count, const std::string& beginning) {
  Clients clients;
  for (std::size_t i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<Client>(port));
    clients.back()->write(beginning);
  }
  return clients;
}

std::string head_with(std::size_t body_bytes) {
  return "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
         "Content-Length: " +
         std::to_string(body_bytes) + "\r\n\r\n";
}

TEST(SlowClients, GiveWayToOthers) {
  const auto server = start(patient_options());
  for (const std::string& beginning : {std::string("POST /v1/comp"), head_with(1000) + "{"}) {
    const Clients slow = stalled(server->port(), 2 * kThreads, beginning);
    for (const char* path : {"/health", "/v1/status"}) {
      EXPECT_EQ(get(server->port(), path).status, 200) << beginning;
    }
    ASSERT_TRUE(slow.front()->read_to_end());
    const Answered told = parse_answer(slow.front()->received());
    EXPECT_EQ(told.status, 408);
    EXPECT_NE(told.body.find("too slowly while others waited"), std::string::npos) << told.body;
  }
}

TEST(SlowClients, AreNotThoseWhoseRequestComesInWell) {
  ServerOptions options = patient_options();
  options.limits.slowest = 200;
  const auto server = start(options);
  const std::string body = complete("x", {{"max_tokens", 1}}).dump() + std::string(200'000, ' ');
  Client steady(server->port());  // by this measure for a quarter of an hour
  steady.write(head_with(body.size()) + body.substr(1));
  const Clients slow = stalled(server->port(), 2 * kThreads, head_with(1000) + "{");
  EXPECT_EQ(get(server->port(), "/health").status, 200);
  steady.write(" ");
  ASSERT_TRUE(steady.read_to_end());
  EXPECT_EQ(parse_answer(steady.received()).status, 400) << "taken in, and no JSON";
}

TEST(SlowClients, DoNotKeepTheRoomForBodies) {
  const auto server = start(patient_options());
  const Clients slow = stalled(server->port(), 4, head_with(1'000'000) + "{");
  const std::string body = complete("x", {{"max_tokens", 1}}).dump() + std::string(600'000, ' ');
  EXPECT_EQ(ask(server->port(), "POST", "/v1/completions", body).status, 200);
}

TEST(SlowClients, OfOneAddressLeavePlacesToWaitForOthers) {
  ServerOptions options = patient_options();
  options.limits.slowest = 0;  // nobody is too slow
  const auto server = start(options);
  Clients all = stalled(server->port(), 100, "GET /hea");
  ASSERT_TRUE(all.back()->read_to_end());
  EXPECT_EQ(parse_answer(all.back()->received()).status, 503);
  Client other(server->port(), Client::kThisMachine + 1);
  other.write(wire("GET", "/health"));
  all.clear();
  ASSERT_TRUE(other.read_to_end());
  EXPECT_EQ(parse_answer(other.received()).status, 200);
}

}  // namespace
}  // namespace sluice::server
