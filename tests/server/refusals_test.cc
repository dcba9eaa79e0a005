// Requests that come when the server ends, and those that are the same when they come again.
#include <gtest/gtest.h>

#include <memory>

#include "server/asked.h"
#include "server/host.h"
#include "server/served.h"
#include "server/service.h"

namespace sluice::server {
namespace {

/// A server whose engine can be stopped while its connections stay.
struct ServerInParts {
  static HttpOptions http_options() {
    HttpOptions options;
    options.port = 0;
    options.limits = options_for_tests().limits;
    return options;
  }
  int port() const { return http->port(); }

  std::unique_ptr<Host> host = std::move(*Host::start(options_for_tests().host));
  Parsing parsing{20'000};
  Service service{host->model(), host->worker(), host->metrics(), {}, nullptr, parsing};
  std::unique_ptr<HttpServer> http = std::move(*HttpServer::start(http_options(), service));
};

TEST(AServerThatEnds, DoesNotSayThatItsQueueIsFull) {
  ServerInParts server;
  server.host->worker().stop();
  const Answered answer = post(server.port(), "/v1/completions", complete("x"));
  EXPECT_EQ(answer.status, 503) << answer.body;
  EXPECT_EQ(answer.json()["error"]["code"], "shutting_down") << answer.body;
  EXPECT_EQ(answer.json()["error"]["message"], "the server is shutting down");
}

// They are told before its connections end, for which it has a second: here they have all the time.
TEST(AServerThatEnds, TellsItsClients) {
  ServerInParts server;
  LongRequest running(server.port());
  Client waiting(server.port());
  waiting.write(wire("POST", "/v1/completions", complete(kPrompt).dump()));
  while (get(server.port(), "/v1/status").json()["queued"] != 1) continue;
  server.host->worker().stop();
  EXPECT_TRUE(waiting.read_to_end());
  EXPECT_EQ(parse_answer(waiting.received()).status, 503);
  EXPECT_TRUE(running.client().read_to_end());
  EXPECT_NE(running.client().received().find("shutting down"), std::string::npos);
}

TEST(ARequest, IsDrawnAnewUnlessItHasASeedOrIsGreedy) {
  Generation drawn, greedy;
  greedy.sampling.temperature = 0;
  EXPECT_TRUE(is_drawn_anew(TestJson::object(), drawn));
  EXPECT_TRUE(is_drawn_anew({{"seed", nullptr}}, drawn));
  EXPECT_FALSE(is_drawn_anew({{"seed", 0}}, drawn));
  EXPECT_FALSE(is_drawn_anew(TestJson::object(), greedy));
  EXPECT_FALSE(is_drawn_anew({{"seed", nullptr}}, greedy));
}

TEST(AModelWithAnOddName, IsFoundByItsEncodedName) {
  ServerOptions options = options_for_tests();
  options.host.name = "my model/\u00e4";
  const auto server = start(options);
  const auto status = [&](const std::string& name) {
    return get(server->port(), "/v1/models/" + name).status;
  };
  EXPECT_EQ(get(server->port(), "/v1/models/my%20model%2F%c3%A4").json()["id"], options.host.name);
  EXPECT_EQ(status("my%20model/%C3%A4"), 200);
  for (const char* malformed : {"my%20model%2", "my%20model%", "my%2xmodel", "%-1", "%ff%00"}) {
    EXPECT_EQ(status(malformed), 404) << malformed;
  }
  EXPECT_EQ(get(server->port(), "/v1%2Fmodels").status, 404) << "elsewhere nothing is decoded";
}

}  // namespace
}  // namespace sluice::server
