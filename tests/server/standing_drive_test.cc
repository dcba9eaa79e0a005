// While the engine waits for a drive that gives nothing, whatever it holds then, all that watches
// the server is answered.
#include <gtest/gtest.h>

#include "server/client.h"
#include "server/gate.h"
#include "server/served.h"

namespace sluice::server {
namespace {

TEST(AStandingDrive, HoldsUpNobodyWhoWatches) {
  Gate gate;
  ServerOptions options = options_for_tests();
  options.host.engine.wrap_reader = behind(gate);
  const auto server = start(options);
  const OpenInTheEnd opened(gate);
  const int port = server->port();
  gate.shut();
  Client client(port);
  client.write(wire("POST", "/v1/completions", complete(kPrompt).dump()));
  while (gate.held() == 0 || get(port, "/v1/status").json()["phase"] != "prefill") continue;
  for (const char* path : {"/v1/experts", "/v1/experts?since=1", "/v1/status", "/metrics",
                           "/health", "/v1/models", "/"}) {
    EXPECT_EQ(get(port, path).status, 200) << path;
  }
  EXPECT_EQ(get(port, "/v1/status").json()["phase"], "prefill") << "it has not come on meanwhile";
  gate.open();
  wait_until_idle(port);
}

}  // namespace
}  // namespace sluice::server
