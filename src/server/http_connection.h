// One client's connection: requests in, responses out, each with a deadline.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "server/http_message.h"

namespace sluice::server {

struct HttpLimits {
  std::size_t body_bytes = std::size_t{4} << 20;  ///< of one request
  std::chrono::milliseconds head{10'000};         ///< from the first byte of a head to its last
  std::chrono::milliseconds body{60'000};         ///< for a whole body
  std::chrono::milliseconds idle{60'000};         ///< between two requests
  std::chrono::milliseconds write{30'000};        ///< without the client taking any of a response
  // A request that comes in longer than this and slower than that gives way to others.
  std::chrono::milliseconds patience{1'000};
  std::size_t slowest = std::size_t{16} << 10;  ///< bytes per second
  // The same of a response that had to wait so long for its client to take what was sent before.
  std::chrono::milliseconds stalled{30'000};
};

/// Lends room for bodies, so that all of them together stay within what was planned.
class BodyRoom {
 public:
  explicit BodyRoom(std::size_t bytes) : left_(bytes) {}
  bool take(std::size_t bytes);
  void give_back(std::size_t bytes) { left_ += bytes; }

  /// Where there is no room: ends requests that come in too slowly. Set before it is used.
  std::function<void()> press = [] {};

 private:
  std::atomic<std::size_t> left_;
};

/// Used by one thread, but for is_waiting(), is_receiving() and what ends it.
class HttpConnection {
 public:
  /// Owns `socket`, which must be non-blocking.
  HttpConnection(int socket, std::string peer, const HttpLimits& limits, BodyRoom& bodies);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  /// The next request; none when the client has left or stays silent. A request that is refused
  /// was answered, and the connection is over.
  std::optional<HttpRequest> next_request();
  /// The request's body is not needed any more: others may have its room.
  void drop_body(HttpRequest& request);
  /// The response is whole.
  void finish(HttpRequest& request);

  /// A whole response. `keep_alive` as the request said.
  void respond(const HttpRequest& request, int status, const Headers& headers,
               std::string_view body);

  /// A whole response whose body has so many bytes and is never in memory as one. `next` makes the
  /// next piece of it, none of them empty; without one the connection ends in the middle.
  void respond_in_pieces(const HttpRequest& request, int status, const Headers& headers,
                         std::size_t bytes, FunctionRef<std::optional<std::string>()> next);

  /// A response whose body comes piece by piece.
  void begin_stream(const HttpRequest& request, int status, Headers headers);
  void stream(std::string_view piece);
  void end_stream();

  /// Something failed that nobody foresaw: 500, unless a response has begun. The connection is
  /// over.
  void fail();

  /// The client has closed its side, or takes nothing any more: nobody waits for an answer.
  bool is_gone();
  bool is_over() const { return over_; }

  const std::string& peer() const { return peer_; }

  /// No request is under way. May be called from any thread.
  bool is_waiting() const { return state_ == State::waiting; }
  /// A request comes in and is not whole yet. May be called from any thread.
  bool is_receiving() const { return state_ == State::receiving; }
  /// From another thread: ends it if it has waited so long that nobody is about to send a request.
  /// True if it ends.
  bool end_if_idle();
  /// From another thread: refuses the request that comes in if it comes too slowly, and ends the
  /// response that is taken too slowly. True if it ends.
  bool end_if_slow();
  /// Others wait for the thread: a request must come soon.
  void hurry() { hurried_ = true; }
  /// Ends the connection from another thread: reads and writes fail from now on.
  void hang_up();

 private:
  using Time = std::chrono::steady_clock::time_point;
  // sending: a part of handling, in which the client must take something first.
  enum class State { waiting, receiving, handling, sending, ending };
  bool fill(Time deadline);
  std::optional<std::size_t> read_head_bytes();
  bool borrow(std::size_t bytes);
  bool read_body(HttpRequest& request);
  void refuse_part(std::string_view what, Time deadline);
  void begin_response();
  bool wait_until_taken(Time deadline);
  void write(std::string_view bytes);
  void refuse(const HttpFault& fault);

  const int socket_;
  const std::string peer_;
  const HttpLimits& limits_;
  BodyRoom& bodies_;
  std::string received_;  // and not yet used
  std::size_t lent_ = 0;  // of bodies_
  static constexpr std::chrono::milliseconds kIdle{200};
  std::atomic<State> state_{State::waiting};
  std::atomic<Time> since_{std::chrono::steady_clock::now()};  // it waits, receives, or sends
  std::atomic<std::size_t> moved_{0};                          // bytes since then, in or out
  Time::duration stalled_{0};  // how long the response has waited for its client
  bool hurried_ = false;
  bool chunked_ = false;
  bool responds_ = false;  // to the request that came last
  bool over_ = false;
};

}  // namespace sluice::server
