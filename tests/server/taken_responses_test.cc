// Responses that are taken slowly: for how long, and when they give way to others.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "server/http_connection.h"

namespace sluice::server {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

/// A connection that is asked for something, and a client who takes little at a time.
class TakenResponses : public ::testing::Test {
 protected:
  void begin(const HttpLimits& limits) {
    end();
    limits_ = limits;
    int both[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both), 0);
    ::fcntl(both[0], F_SETFL, O_NONBLOCK);
    const int small = 4096;
    ::setsockopt(both[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    client_ = both[1];
    connection_ = std::make_unique<HttpConnection>(both[0], "client", limits_, bodies_);
    const std::string request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    ASSERT_EQ(::write(client_, request.data(), request.size()),
              static_cast<ssize_t>(request.size()));
    request_ = connection_->next_request();
    ASSERT_TRUE(request_);
  }
  void end() {
    connection_.reset();
    if (client_ >= 0) ::close(std::exchange(client_, -1));
  }
  ~TakenResponses() override { end(); }

  void respond() { connection_->respond(*request_, 200, {}, body_); }

  /// Whether a response comes that is taken little by little: in all longer than the limit, and
  /// each time far sooner, unless this process stands still meanwhile.
  bool comes_within(milliseconds limit) {
    HttpLimits limits;
    limits.write = limit;
    begin(limits);
    std::thread server([&] {
      respond();
      connection_->hang_up();
    });
    std::string taken;
    char piece[2048];
    for (ssize_t count; (count = ::read(client_, piece, sizeof(piece))) > 0;) {
      taken.append(piece, static_cast<std::size_t>(count));
      std::this_thread::sleep_for(limit / 40);
    }
    server.join();
    return taken.ends_with("\r\n\r\n" + body_) && !connection_->is_over();
  }

  HttpLimits limits_;
  BodyRoom bodies_{0};
  const std::string body_ = std::string(128'000, 'x');
  int client_ = -1;
  std::unique_ptr<HttpConnection> connection_;
  std::optional<HttpRequest> request_;
};

TEST_F(TakenResponses, GoOnAsLongAsSomethingIsTaken) {
  // Without a new deadline for each piece none would come, however long the limit.
  milliseconds limit(200);
  bool comes = false;
  for (int attempt = 0; attempt < 9 && !(comes = comes_within(limit)); ++attempt) limit *= 2;
  EXPECT_TRUE(comes) << limit.count();
}

TEST_F(TakenResponses, EndWhenNothingIsTaken) {
  HttpLimits limits;
  limits.write = milliseconds(20);
  begin(limits);
  respond();
  EXPECT_TRUE(connection_->is_over());
}

TEST_F(TakenResponses, GiveWayToOthersWhenTheyAreTakenTooSlowly) {
  HttpLimits limits;
  limits.write = hours(1);
  limits.stalled = milliseconds(0);
  limits.slowest = std::size_t{1} << 40;
  begin(limits);
  std::thread server([&] { respond(); });
  bool ended = false;
  for (int i = 0; i < 100'000 && !ended; ++i) {
    std::this_thread::sleep_for(milliseconds(1));
    ended = connection_->end_if_slow();
  }
  ::shutdown(client_, SHUT_RDWR);
  server.join();
  EXPECT_TRUE(ended);
  EXPECT_TRUE(connection_->is_over());
}

TEST_F(TakenResponses, KeepTheirPlaceWhileTheEngineIsWhatIsSlow) {
  HttpLimits limits;
  limits.stalled = limits.patience = milliseconds(0);
  limits.slowest = std::size_t{1} << 40;
  begin(limits);
  connection_->begin_stream(*request_, 200, {});
  connection_->stream("a token");
  std::this_thread::sleep_for(milliseconds(2));
  EXPECT_FALSE(connection_->end_if_slow());
  connection_->stream("another");
  connection_->end_stream();
  EXPECT_FALSE(connection_->is_over());
}

TEST_F(TakenResponses, InPiecesHaveALengthAndEndEarlyWithoutOne) {
  begin({});
  int pieces = 0;
  const auto next = [&]() -> std::optional<std::string> {
    if (++pieces > 2) return std::nullopt;
    return "abc";
  };
  connection_->respond_in_pieces(*request_, 200, {}, 9, next);
  EXPECT_TRUE(connection_->is_over());
  connection_->hang_up();
  std::string taken(4096, '\0');
  taken.resize(static_cast<std::size_t>(::read(client_, taken.data(), taken.size())));
  EXPECT_NE(taken.find("Content-Length: 9\r\n"), std::string::npos) << taken;
}

}  // namespace
}  // namespace sluice::server
