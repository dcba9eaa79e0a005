// Heads of requests: what is taken, and what is refused because two readers could differ about it.
#include "server/http_message.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

const std::string kHost = "Host: a\r\n";

int status_of(const std::string& head) {
  const auto request = parse_http_head(head);
  return request ? 200 : request.error().status;
}

TEST(HttpHead, IsTakenApart) {
  const auto request = parse_http_head(
      "POST /v1/x?a=1&b=2 HTTP/1.1\r\nHost: h:1\r\nX-Two:  two words \r\nContent-Length: "
      "12\r\n\r\n");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->method, "POST");
  EXPECT_EQ(request->path, "/v1/x");
  EXPECT_EQ(query_value(request->query, "b"), "2");
  EXPECT_EQ(query_value(request->query, "c"), std::nullopt);
  EXPECT_EQ(*request->header("x-two"), "two words");
  EXPECT_EQ(request->content_length, 12u);
  EXPECT_TRUE(request->keep_alive);
}

TEST(HttpHead, SaysWhetherTheConnectionGoesOn) {
  EXPECT_FALSE(
      parse_http_head("GET / HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n\r\n")->keep_alive);
  EXPECT_FALSE(parse_http_head("GET / HTTP/1.0\r\n\r\n")->keep_alive);
  EXPECT_TRUE(parse_http_head("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")->keep_alive);
}

TEST(HttpHead, IsRefusedWhenItIsAmbiguousOrBroken) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n" + kHost + "\r\n"), 200);
  EXPECT_EQ(status_of("GET /\r\n" + kHost + "\r\n"), 400);
  EXPECT_EQ(status_of("GET  / HTTP/1.1\r\n" + kHost + "\r\n"), 400);
  EXPECT_EQ(status_of("GET http://a/ HTTP/1.1\r\n" + kHost + "\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/2.0\r\n" + kHost + "\r\n"), 505);
  EXPECT_EQ(status_of("G@T / HTTP/1.1\r\n" + kHost + "\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 400) << "no Host";
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n" + kHost + kHost + "\r\n"), 400) << "two Hosts";
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n" + kHost + "A : 1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n" + kHost + "A: 1\r\n 2\r\n\r\n"), 400) << "folded";
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n" + kHost + "A: \x01\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n" + kHost + "A: 1\nB: 2\r\n\r\n"), 400) << "bare LF";
  EXPECT_EQ(status_of("GET /" + std::string(kMostTargetBytes, 'a') + " HTTP/1.1\r\n\r\n"), 414);
  std::string many;
  for (std::size_t i = 0; i <= kMostHeaders; ++i) many += "A: 1\r\n";
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n" + kHost + many + "\r\n"), 431);
}

TEST(HttpHead, HasABodyAsItIs) {
  const std::string post = "POST / HTTP/1.1\r\n" + kHost + "Content-Length: 3\r\n";
  EXPECT_EQ(status_of(post + "Content-Encoding: Identity\r\n\r\n"), 200);
  for (const char* coding : {"gzip", "br", "identity, gzip"}) {
    EXPECT_EQ(status_of(post + "Content-Encoding: " + coding + "\r\n\r\n"), 415) << coding;
  }
}

TEST(HttpHead, HasOneLengthOfTheBody) {
  const std::string post = "POST / HTTP/1.1\r\n" + kHost;
  EXPECT_EQ(status_of(post + "Content-Length: 3\r\n\r\n"), 200);
  for (const char* bad : {"-1", "+1", "0x3", "3 4", "", "99999999999999999999999"}) {
    EXPECT_EQ(status_of(post + "Content-Length: " + bad + "\r\n\r\n"), 400) << bad;
  }
  EXPECT_EQ(status_of(post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\n"), 400);
  EXPECT_EQ(status_of(post + "Transfer-Encoding: chunked\r\n\r\n"), 411);
}

}  // namespace
}  // namespace sluice::server
