// The whole server: a model, its engine's thread, and the address at which it can be asked.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/options.h"
#include "engine/statistics.h"
#include "server/http_connection.h"

namespace sluice::server {

struct ServerOptions {
  engine::EngineOptions engine;        ///< reserve and saved_states are the server's to fill in
  std::filesystem::path model_folder;  ///< with the tokenizer and generation_config.json
  std::string name;                    ///< of the model; empty: its folder's
  std::string host = "127.0.0.1";
  int port = 8080;                ///< 0: any that is free
  std::size_t queue = 16;         ///< requests that may wait
  std::vector<std::string> keys;  ///< API keys; none: nobody needs one
  std::vector<std::string> allowed_hosts;
  /// Bytes for conversations that may go on. Default: a sixteenth of the memory.
  std::optional<std::uint64_t> saved_states;
  HttpLimits limits;  ///< its body_bytes are chosen by the context
};

class Server {
 public:
  /// Opens the model and listens. Fails as Engine::open() does, or with ErrorKind::usage if the
  /// address cannot be had or the model has no tokenizer.
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
