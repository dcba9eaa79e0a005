// Listens, and gives each connection a thread. Sluice has its own few lines of HTTP because what a
// library brings with it (TLS, compression, 8 MB stacks) would have to fit into every memory
// budget.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "server/http_connection.h"
#include "server/thread.h"

namespace sluice::server {

struct HttpOptions {
  std::string host = "127.0.0.1";                 ///< a literal address, or "localhost"
  int port = 8080;                                ///< 0: any that is free
  std::size_t connections = 24;                   ///< at once, a thread each
  std::size_t body_room = std::size_t{16} << 20;  ///< bytes, of all bodies together
  HttpLimits limits;
};

/// Answers requests. Called on the threads of connections, many at once.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// Must respond, or stream, exactly once.
  virtual void handle(HttpRequest& request, HttpConnection& connection) = 0;
};

/// Whether it is 127.0.0.0/8, ::1 or localhost. ErrorKind::usage when it is no address at all.
Result<bool> is_loopback(const std::string& host);

class HttpServer {
 public:
  /// Listens at once. The handler must outlive the server. Fails with ErrorKind::usage if the
  /// address cannot be had.
  static Result<std::unique_ptr<HttpServer>> start(const HttpOptions& options,
                                                   HttpHandler& handler);
  /// Lets responses that are under way end for a second, hangs up, and waits for the threads.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }

  /// Memory that the options let the server take: stacks, bodies and buffers, in bytes.
  static std::uint64_t memory_bytes(const HttpOptions& options);

 private:
  HttpServer(const HttpOptions& options, HttpHandler& handler);
  Status listen();
  void accept_all();
  void take(int socket, std::string peer);
  bool is_pressed();
  bool may_wait(const std::string& peer) const;
  bool make_room();
  void serve_all();
  void serve(HttpConnection& connection);

  const HttpOptions options_;
  HttpHandler& handler_;
  BodyRoom bodies_;
  int listener_ = -1;
  int wake_ = -1;  // readable once the server is to stop
  int port_ = 0;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable left_;
  std::deque<std::unique_ptr<HttpConnection>> waiting_;  // for a thread
  std::vector<HttpConnection*> served_;
  std::size_t idle_threads_ = 0;
  std::atomic<bool> stop_{false};  // set under the mutex
  std::vector<Thread> threads_;
};

}  // namespace sluice::server
