#include "server/http_connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

namespace sluice::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Waits until the socket can be read or written; false at the deadline.
bool wait_for(int socket, short events, steady_clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
    if (left <= 0) return false;
    pollfd descriptor = {socket, events, 0};
    const int ready = ::poll(&descriptor, 1, static_cast<int>(std::min<long>(left, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace

bool BodyRoom::take(std::size_t bytes) {
  std::size_t left = left_.load();
  while (left >= bytes) {
    if (left_.compare_exchange_weak(left, left - bytes)) return true;
  }
  return false;
}

HttpConnection::HttpConnection(int socket, std::string peer, const HttpLimits& limits,
                               BodyRoom& bodies)
    : socket_(socket), peer_(std::move(peer)), limits_(limits), bodies_(bodies) {}

HttpConnection::~HttpConnection() {
  bodies_.give_back(lent_);
  ::close(socket_);
}

/// Appends what comes next to received_; false when nothing does.
bool HttpConnection::fill(Time deadline) {
  std::array<char, 4096> room;
  while (!over_) {
    const ssize_t count = ::recv(socket_, room.data(), room.size(), 0);
    if (count > 0) {
      received_.append(room.data(), static_cast<std::size_t>(count));
      moved_ += static_cast<std::size_t>(count);
      return true;
    }
    const bool again = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    if (!again || !wait_for(socket_, POLLIN, deadline)) over_ = true;
  }
  return false;
}

/// The size of the next head, once all of it is in received_.
std::optional<std::size_t> HttpConnection::read_head_bytes() {
  since_ = steady_clock::now();
  if (received_.empty()) state_ = State::waiting;
  const milliseconds patience = hurried_ ? std::min(limits_.idle, kIdle) : limits_.idle;
  if (received_.empty() && !fill(steady_clock::now() + patience)) return std::nullopt;
  since_ = steady_clock::now();
  moved_ = received_.size();
  state_ = State::receiving;
  const Time deadline = steady_clock::now() + limits_.head;
  for (std::size_t looked_at = 0;;) {
    const std::size_t end = received_.find("\r\n\r\n", looked_at);
    if (end != std::string::npos && end + 4 <= kMostHeadBytes) return end + 4;
    if (received_.size() > kMostHeadBytes || end != std::string::npos) {
      refuse({431, fmt::format("a request's head may have {} bytes", kMostHeadBytes)});
      return std::nullopt;
    }
    looked_at = received_.size() < 3 ? 0 : received_.size() - 3;
    if (fill(deadline)) continue;
    refuse_part("head", deadline);
    return std::nullopt;
  }
}

std::optional<HttpRequest> HttpConnection::next_request() {
  responds_ = false;
  const auto head_bytes = read_head_bytes();
  if (!head_bytes) return std::nullopt;
  auto request = parse_http_head(std::string_view(received_).substr(0, *head_bytes));
  received_.erase(0, *head_bytes);
  if (!request) {
    refuse(request.error());
    return std::nullopt;
  }
  request->peer = peer_;
  if (!read_body(*request)) return std::nullopt;
  State receiving = State::receiving;
  if (!state_.compare_exchange_strong(receiving, State::handling)) {
    refuse_part("body", Time::max());
    return std::nullopt;
  }
  return std::move(*request);
}

/// Room for a body. Who sends too slowly must not keep it from others.
bool HttpConnection::borrow(std::size_t bytes) {
  constexpr milliseconds kPause{20};
  const Time deadline = steady_clock::now() + limits_.patience + 2 * kPause;
  while (!bodies_.take(bytes)) {
    if (steady_clock::now() >= deadline) return false;
    bodies_.press();
    std::this_thread::sleep_for(kPause);
    since_ = steady_clock::now();  // it is not this client that is waited for
  }
  lent_ = bytes;
  return true;
}

bool HttpConnection::read_body(HttpRequest& request) {
  const std::size_t length = request.content_length;
  if (length > limits_.body_bytes) {
    refuse({413, fmt::format("a request's body may have {} bytes", limits_.body_bytes)});
    return false;
  }
  if (length == 0) return true;
  if (!borrow(length)) {
    refuse({503, "there is no room for another request now"});
    return false;
  }
  if (const std::string* expect = request.header("expect"); expect != nullptr) {
    if (received_.empty()) write("HTTP/1.1 100 Continue\r\n\r\n");
  }
  request.body.reserve(length);
  const Time deadline = steady_clock::now() + limits_.body;
  while (true) {
    const std::size_t count = std::min(length - request.body.size(), received_.size());
    request.body.append(received_, 0, count);
    received_.erase(0, count);
    if (request.body.size() == length) return true;
    if (fill(deadline)) continue;
    refuse_part("body", deadline);
    return false;
  }
}

void HttpConnection::drop_body(HttpRequest& request) {
  std::string().swap(request.body);
  bodies_.give_back(std::exchange(lent_, 0));
}

void HttpConnection::finish(HttpRequest& request) {
  drop_body(request);
  if (!request.keep_alive) over_ = true;
}

void HttpConnection::begin_response() {
  responds_ = true;
  stalled_ = {};
  moved_ = 0;
}

void HttpConnection::respond(const HttpRequest& request, int status, const Headers& headers,
                             std::string_view body) {
  std::string response = response_head(status, headers, request.keep_alive, body.size());
  begin_response();
  if (request.method == "HEAD") return write(response);
  // What is small goes in one packet; what is large is not copied for that.
  constexpr std::size_t kSmall = std::size_t{64} << 10;
  if (body.size() <= kSmall) return write(response.append(body));
  write(response);
  write(body);
}

void HttpConnection::respond_in_pieces(const HttpRequest& request, int status,
                                       const Headers& headers, std::size_t bytes,
                                       FunctionRef<std::optional<std::string>()> next) {
  begin_response();
  write(response_head(status, headers, request.keep_alive, bytes));
  for (std::size_t written = 0; !over_ && written < bytes;) {
    const std::optional<std::string> piece = next();
    // The client knows by the length that this is not all.
    if (!piece || piece->empty() || piece->size() > bytes - written) {
      over_ = true;
      return;
    }
    write(*piece);
    written += piece->size();
  }
}

void HttpConnection::begin_stream(const HttpRequest& request, int status, Headers headers) {
  begin_response();
  chunked_ = !request.is_http10;
  if (chunked_) headers.emplace_back("Transfer-Encoding", "chunked");
  write(response_head(status, headers, chunked_ && request.keep_alive, std::nullopt));
}

void HttpConnection::stream(std::string_view piece) {
  if (piece.empty()) return;  // an empty chunk would be the last
  if (!chunked_) return write(piece);
  write(fmt::format("{:x}\r\n{}\r\n", piece.size(), piece));
}

void HttpConnection::end_stream() {
  if (chunked_) {
    write("0\r\n\r\n");
  } else {
    over_ = true;
  }
}

void HttpConnection::fail() {
  if (!responds_ && !over_) refuse({500, "the server failed at this request"});
  over_ = true;
}

bool HttpConnection::is_gone() {
  if (over_) return true;
  // To look for what can be read is not enough: bytes that nobody has read lie before the end.
  pollfd ended = {socket_, POLLRDHUP, 0};
  if (::poll(&ended, 1, 0) > 0) over_ = (ended.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  return over_;
}

bool HttpConnection::end_if_idle() {
  if (state_ != State::waiting || steady_clock::now() - since_.load() <= kIdle) return false;
  hang_up();
  return true;
}

bool HttpConnection::end_if_slow() {
  State now = state_;
  if (now == State::ending) return true;
  if (now != State::receiving && now != State::sending) return false;
  const auto taken = steady_clock::now() - since_.load();
  if (taken <= (now == State::sending ? limits_.stalled : limits_.patience)) return false;
  const double seconds = std::chrono::duration<double>(taken).count();
  if (static_cast<double>(moved_) >= seconds * static_cast<double>(limits_.slowest)) return false;
  // Wakes its thread, which says so to the client if it can.
  const int side = now == State::sending ? SHUT_RDWR : SHUT_RD;
  // Unless it has become whole meanwhile.
  if (!state_.compare_exchange_strong(now, State::ending)) return false;
  ::shutdown(socket_, side);
  return true;
}

void HttpConnection::hang_up() { ::shutdown(socket_, SHUT_RDWR); }

/// Waits for the client. Meanwhile another thread may end the response (end_if_slow()): only such
/// waits count, for between them it may be the engine that is slow.
bool HttpConnection::wait_until_taken(Time deadline) {
  const Time since = steady_clock::now() - stalled_;
  const bool may_end = state_ == State::handling;  // which only this thread changes
  if (may_end) {
    since_ = since;
    state_ = State::sending;
  }
  const bool taken = wait_for(socket_, POLLOUT, deadline);
  stalled_ = steady_clock::now() - since;
  State sending = State::sending;
  if (may_end && !state_.compare_exchange_strong(sending, State::handling)) return false;
  return taken;
}

void HttpConnection::write(std::string_view bytes) {
  Time deadline = steady_clock::now() + limits_.write;
  while (!over_ && !bytes.empty()) {
    const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
      moved_ += static_cast<std::size_t>(count);
      if (count > 0) deadline = steady_clock::now() + limits_.write;
      continue;
    }
    const bool again = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    if (!again || !wait_until_taken(deadline)) over_ = true;
  }
}

/// Says why the rest of a request is not waited for.
void HttpConnection::refuse_part(std::string_view what, Time deadline) {
  if (state_ == State::ending) {
    refuse({408, fmt::format("the request's {} came too slowly while others waited", what)});
  } else if (steady_clock::now() >= deadline) {
    refuse({408, fmt::format("the request's {} did not come in time", what)});
  } else {
    refuse({400, fmt::format("the request's {} ended early", what)});
  }
}

/// Answers a request that could not be taken in, and gives up the connection: where the next
/// request would begin is not known.
void HttpConnection::refuse(const HttpFault& fault) {
  over_ = false;
  const std::string body =
      fmt::format(R"({{"error":{{"message":"{}","type":"{}","param":null,"code":null}}}})",
                  fault.message, fault.status == 500 ? "server_error" : "invalid_request_error");
  Headers headers = {{"Content-Type", "application/json"}};
  if (fault.status == 503) headers.emplace_back("Retry-After", "1");
  write(response_head(fault.status, headers, false, body.size()) + body);
  // Bytes that were not read would turn the close into a reset, and the answer could be lost.
  ::shutdown(socket_, SHUT_WR);
  const Time deadline = steady_clock::now() + milliseconds(500);
  for (std::size_t dropped = 0; dropped < (std::size_t{1} << 20) && fill(deadline);) {
    dropped += received_.size();
    received_.clear();
  }
  over_ = true;
}

}  // namespace sluice::server
