#include "server/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/log.h"
#include "server/last_resort.h"

namespace sluice::server {
namespace {

constexpr int kBacklog = 64;
constexpr std::chrono::seconds kGrace{1};
constexpr int kPressedMs = 50;             // how often those who wait for threads are looked after
constexpr std::size_t kMostWaiting = 128;  // for threads that are about to be free
constexpr std::ptrdiff_t kMostOfAnAddress = 64;  // of them
// Beside its stack and its body: the head, a response on its way, the socket's part of the heap.
constexpr std::uint64_t kConnectionBytes = std::uint64_t{64} << 10;

std::string error_text(int error) { return std::generic_category().message(error); }

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

/// Numbers only: a server does not ask a name server where to listen.
Result<Address> address_of(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string literal = host == "localhost" ? "127.0.0.1" : host;
  if (getaddrinfo(literal.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return fail(ErrorKind::usage,
                "--host {}: is not an address of this machine, like 127.0.0.1, 0.0.0.0 or ::1",
                host);
  }
  Address address;
  std::copy_n(reinterpret_cast<const char*>(found->ai_addr), found->ai_addrlen,
              reinterpret_cast<char*>(&address.bytes));
  address.size = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

std::string text_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  if (address.ss_family == AF_INET6) {
    bytes = &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  }
  return inet_ntop(address.ss_family, bytes, text.data(), text.size()) == nullptr ? "?"
                                                                                  : text.data();
}

}  // namespace

Result<bool> is_loopback(const std::string& host) {
  SLUICE_ASSIGN(const Address address, address_of(host, 0));
  if (address.bytes.ss_family == AF_INET) {
    const auto& bytes = reinterpret_cast<const sockaddr_in&>(address.bytes);
    return ntohl(bytes.sin_addr.s_addr) >> 24 == 127;
  }
  const auto& bytes = reinterpret_cast<const sockaddr_in6&>(address.bytes).sin6_addr;
  return std::memcmp(&bytes, &in6addr_loopback, sizeof(bytes)) == 0;
}

std::uint64_t HttpServer::memory_bytes(const HttpOptions& options) {
  return options.body_room + (options.connections + 1) * (kThreadStackBytes + kConnectionBytes);
}

HttpServer::HttpServer(const HttpOptions& options, HttpHandler& handler)
    : options_(options), handler_(handler), bodies_(options.body_room) {
  bodies_.press = [this] {
    const std::scoped_lock lock(mutex_);
    for (HttpConnection* connection : served_) connection->end_if_slow();
  };
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpOptions& options,
                                                      HttpHandler& handler) {
  std::unique_ptr<HttpServer> server(new HttpServer(options, handler));
  SLUICE_TRY(server->listen());
  HttpServer* const self = server.get();
  SLUICE_ASSIGN(Thread acceptor, Thread::start(kThreadStackBytes, [self] { self->accept_all(); }));
  const std::scoped_lock lock(self->mutex_);
  self->threads_.push_back(std::move(acceptor));
  return server;
}

HttpServer::~HttpServer() {
  std::vector<Thread> threads;
  const std::uint64_t one = 1;
  {
    std::unique_lock lock(mutex_);
    stop_ = true;
    if (wake_ >= 0) static_cast<void>(!::write(wake_, &one, sizeof(one)));
    arrived_.notify_all();
    for (HttpConnection* connection : served_) {
      if (connection->is_waiting()) connection->hang_up();
    }
    left_.wait_for(lock, kGrace, [&] { return served_.empty(); });
    for (HttpConnection* connection : served_) connection->hang_up();
    threads = std::move(threads_);
  }
  threads.clear();  // joins
  if (listener_ >= 0) ::close(listener_);
  if (wake_ >= 0) ::close(wake_);
}

Status HttpServer::listen() {
  SLUICE_ASSIGN(const Address address, address_of(options_.host, options_.port));
  listener_ = ::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const int on = 1;
  if (listener_ < 0 || wake_ < 0 ||
      ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(listener_, reinterpret_cast<const sockaddr*>(&address.bytes), address.size) != 0 ||
      ::listen(listener_, kBacklog) != 0) {
    return fail(ErrorKind::usage, "cannot listen on {} port {}: {}", options_.host, options_.port,
                error_text(errno));
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&bound), &size);
  port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                            : reinterpret_cast<sockaddr_in&>(bound).sin_port);
  return {};
}

void HttpServer::accept_all() {
  while (true) {
    std::array<pollfd, 2> descriptors = {{{listener_, POLLIN, 0}, {wake_, POLLIN, 0}}};
    const int patience = is_pressed() ? kPressedMs : -1;
    if (::poll(descriptors.data(), descriptors.size(), patience) < 0 && errno != EINTR) return;
    if (descriptors[1].revents != 0) return;
    if (descriptors[0].revents == 0) continue;
    sockaddr_storage from{};
    socklen_t size = sizeof(from);
    const int socket = ::accept4(listener_, reinterpret_cast<sockaddr*>(&from), &size,
                                 SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket >= 0) {
      take(socket, text_of(from));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      pollfd stop = {wake_, POLLIN, 0};  // until somebody else gives something back
      ::poll(&stop, 1, 100);
    }
  }
}

/// Gives a new connection to a thread that waits, or to a new one.
void HttpServer::take(int socket, std::string peer) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  auto connection =
      std::make_unique<HttpConnection>(socket, std::move(peer), options_.limits, bodies_);
  const std::scoped_lock lock(mutex_);
  if (stop_) return;
  const bool wants_thread = waiting_.size() >= idle_threads_;
  if (wants_thread && threads_.size() <= options_.connections) {
    auto thread = Thread::start(kThreadStackBytes, [this] { serve_all(); });
    if (thread) {
      threads_.push_back(std::move(*thread));
      ++idle_threads_;
    }
  }
  if (waiting_.size() >= idle_threads_ && !(may_wait(connection->peer()) && make_room())) {
    const std::string head =
        response_head(503, {{"Retry-After", "1"}}, false, 0);  // what fits into any socket buffer
    static_cast<void>(::send(socket, head.data(), head.size(), MSG_NOSIGNAL));
    return;
  }
  waiting_.push_back(std::move(connection));
  arrived_.notify_one();
}

/// Whether connections wait for threads; if so, makes room for them.
bool HttpServer::is_pressed() {
  const std::scoped_lock lock(mutex_);
  const bool pressed = waiting_.size() > idle_threads_;
  if (pressed) make_room();
  return pressed;
}

/// One address alone cannot take all places.
bool HttpServer::may_wait(const std::string& peer) const {
  const auto of_peer = std::count_if(waiting_.begin(), waiting_.end(),
                                     [&](const auto& each) { return each->peer() == peer; });
  return waiting_.size() < kMostWaiting && of_peer < kMostOfAnAddress;
}

/// Ends connections on which nothing happens, and then those whose requests come too slowly, so
/// that those who wait and a new one can have their threads. A client that has only just come is
/// about to send its request; but unless it does, it gives way soon. False if nobody will.
bool HttpServer::make_room() {
  std::size_t ending = 0;
  for (const auto end : {&HttpConnection::end_if_idle, &HttpConnection::end_if_slow}) {
    for (HttpConnection* connection : served_) {
      if (ending > waiting_.size()) return true;
      if ((connection->*end)()) ++ending;
    }
  }
  // Those that are about to have a thread have sent nothing yet, either.
  const bool some_are_new = idle_threads_ > 0;
  return ending > 0 || some_are_new ||
         std::any_of(served_.begin(), served_.end(), [](const HttpConnection* connection) {
           return connection->is_waiting() || connection->is_receiving();
         });
}

void HttpServer::serve_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    arrived_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    const std::unique_ptr<HttpConnection> connection = std::move(waiting_.front());
    waiting_.pop_front();
    if (!waiting_.empty()) connection->hurry();
    served_.push_back(connection.get());
    --idle_threads_;
    lock.unlock();
    serve(*connection);
    lock.lock();
    std::erase(served_, connection.get());
    ++idle_threads_;
    left_.notify_all();
  }
}

void HttpServer::serve(HttpConnection& connection) {
  const auto thrown = thrown_by([&] {
    while (!connection.is_over() && !stop_) {
      std::optional<HttpRequest> request = connection.next_request();
      if (!request) return;
      handler_.handle(*request, connection);
      connection.finish(*request);
    }
  });
  if (!thrown) return;
  log_warning("a request failed by a defect of the server: {}", *thrown);
  connection.fail();
}

}  // namespace sluice::server
