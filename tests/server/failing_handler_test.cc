// What is thrown in spite of everything costs one request, not the server.
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "server/client.h"
#include "server/http_server.h"
#include "server/last_resort.h"

namespace sluice::server {
namespace {

class FailingHandler final : public HttpHandler {
 public:
  void handle(HttpRequest& request, HttpConnection& connection) override {
    if (request.path == "/good") return connection.respond(request, 200, {}, "good");
    if (request.path == "/memory") throw std::bad_alloc();
    if (request.path == "/stream") {
      connection.begin_stream(request, 200, {});
      connection.stream("some");
    }
    throw std::runtime_error("nobody thought of this");
  }
};

TEST(AHandlerThatThrows, CostsItsRequestAlone) {
  FailingHandler handler;
  HttpOptions options;
  options.port = 0;
  const auto server = HttpServer::start(options, handler);
  ASSERT_TRUE(server) << server.error().message;
  const int port = (*server)->port();
  for (const char* path : {"/bad", "/memory"}) {
    const Answered answer = get(port, path);
    EXPECT_EQ(answer.status, 500);
    EXPECT_EQ(answer.json()["error"]["type"], "server_error") << answer.body;
    EXPECT_FALSE(answer.json()["error"]["message"].empty());
    EXPECT_EQ(get(port, "/good").body, "good");
  }
  Client client(port);
  client.write(wire("GET", "/stream"));
  EXPECT_TRUE(client.read_to_end());
  EXPECT_NE(client.received().find("4\r\nsome\r\n"), std::string::npos);
  EXPECT_FALSE(client.received().ends_with("0\r\n\r\n")) << "a stream that did not end well";
  EXPECT_EQ(get(port, "/good").body, "good");
}

TEST(TheLastResort, SaysWhatWasThrown) {
  EXPECT_EQ(thrown_by([] {}), std::nullopt);
  EXPECT_EQ(thrown_by([] { throw std::runtime_error("a slip"); }), "a slip");
  EXPECT_TRUE(thrown_by([] { throw std::bad_alloc(); }));
}

}  // namespace
}  // namespace sluice::server
