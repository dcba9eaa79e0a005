// The whole server: a model, its engine's thread, and the address at which it can be asked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/statistics.h"
#include "server/host.h"
#include "server/http_connection.h"

namespace sluice::server {

struct ServerOptions {
  HostOptions host;  ///< reserve, state_folder and drive_limits are the server's to fill in
  std::string address = "127.0.0.1";
  int port = 8080;                ///< 0: any that is free
  std::vector<std::string> keys;  ///< API keys; none: nobody needs one
  std::vector<std::string> allowed_hosts;
  /// For jobs and conversations that outlive the server; empty: there are none.
  std::filesystem::path state_folder;
  HttpLimits limits;  ///< its body_bytes are chosen by the context
};

class Server {
 public:
  /// Opens the model and listens. Fails as Host::start() and make_state_folder() do, or with
  /// ErrorKind::usage if the address cannot be had.
  static Result<std::unique_ptr<Server>> start(ServerOptions options);
  /// Ends all requests.
  ~Server();

  int port() const;
  const std::string& model_name() const;
  std::size_t context() const;
  engine::Statistics statistics() const;

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace sluice::server
