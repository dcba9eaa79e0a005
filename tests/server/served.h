// k3-nano behind a real socket, and what tests ask it.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>

#include "server/client.h"
#include "server/server.h"

namespace sluice::server {

inline const std::string kNano = SLUICE_SOURCE_DIR "/models/k3-nano";
inline constexpr const char* kChat = "/v1/chat/completions";

/// One thread, a queue of two, and endless patience with clients: a busy machine makes any of them
/// slow.
ServerOptions options_for_tests();

std::unique_ptr<Server> start(const ServerOptions& options);

/// Tests that share a server.
class WithServer : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = start(options_for_tests()).release(); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  static int port() { return server_->port(); }

 private:
  static inline Server* server_ = nullptr;
};

/// Bodies of requests for 24 tokens.
TestJson chat(const std::string& text, const TestJson& more = TestJson::object());
TestJson complete(const std::string& prompt, const TestJson& more = TestJson::object());

inline const std::string kPrompt = "It was on a dreary night of November, that I beheld";

/// Of an answer to a completion.
std::string text_of(const Answered& answer);

/// Of an answer: how many of its prompt's tokens were not computed again.
std::size_t cached(const TestJson& answer);

/// A request that takes hours: it is running when this returns, and is given up with the client.
class LongRequest {
 public:
  explicit LongRequest(int port);
  Client& client() { return client_; }

 private:
  Client client_;
};

/// Of a running LongRequest, as /v1/status has it: what was written in all its answers.
std::size_t tokens_so_far(const TestJson& request);

/// Waits until the engine does nothing.
void wait_until_idle(int port);

}  // namespace sluice::server
