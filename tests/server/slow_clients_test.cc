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

/// After a request that was answered: the server has read what came with it, and waits for more.
std::unique_ptr<Client> stalled_for_sure(int port, const std::string& beginning) {
  auto client = std::make_unique<Client>(port);
  client->write("GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + beginning);
  EXPECT_TRUE(client->wait_for("ok"));
  return client;
}

std::string head_with(std::size_t body_bytes) {
  return "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
         "Content-Length: " +
         std::to_string(body_bytes) + "\r\n\r\n";
}

TEST(SlowClients, GiveWayToOthers) {
  const auto server = start(patient_options());
  for (const std::string& beginning : {std::string("POST /v1/comp"), head_with(1000) + "{"}) {
    const auto first = stalled_for_sure(server->port(), beginning);
    const Clients slow = stalled(server->port(), 2 * kThreads, beginning);
    for (const char* path : {"/health", "/v1/status"}) {
      EXPECT_TRUE(is_served_at_last(server->port(), wire("GET", path))) << beginning;
    }
    ASSERT_TRUE(first->read_to_end());
    const std::string& told = first->received();
    EXPECT_NE(told.find("HTTP/1.1 408"), std::string::npos) << told;
    EXPECT_NE(told.find("too slowly while others waited"), std::string::npos) << told;
  }
}

TEST(SlowClients, AreNotThoseWhoseRequestComesInWell) {
  ServerOptions options = patient_options();
  options.limits.slowest = 20;
  const auto server = start(options);
  const std::string body = complete("x", {{"max_tokens", 1}}).dump() + std::string(200'000, ' ');
  // By this measure for hours, and for minutes with what was read before others came.
  const auto steady = stalled_for_sure(server->port(), head_with(body.size()) + body.substr(1));
  const Clients slow = stalled(server->port(), 2 * kThreads, "P");
  EXPECT_TRUE(is_served_at_last(server->port(), wire("GET", "/health")));
  steady->write(" ");
  ASSERT_TRUE(steady->read_to_end());
  EXPECT_NE(steady->received().find("HTTP/1.1 400"), std::string::npos) << "taken in, and no JSON";
}

TEST(SlowClients, DoNotKeepTheRoomForBodies) {
  const auto server = start(patient_options());
  const Clients slow = stalled(server->port(), 4, head_with(1'000'000) + "{");
  const std::string body = complete("x", {{"max_tokens", 1}}).dump() + std::string(600'000, ' ');
  EXPECT_TRUE(is_served_at_last(server->port(), wire("POST", "/v1/completions", body)));
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
