// A server of the demo model as its users start it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "cli/models.h"
#include "cli/program.h"
#include "server/client.h"

namespace sluice::cli {

/// It is killed when this goes.
class Served {
 public:
  explicit Served(const std::vector<std::string>& flags) : program_(arguments(flags)) {
    EXPECT_TRUE(program_.wait_for_err("/v1 ")) << program_.err();
    port_ = std::stoi(program_.err().substr(program_.err().find("127.0.0.1:") + 10));
  }
  ~Served() {
    program_.kill();
    EXPECT_EQ(program_.finish().exit_code, 128 + 9) << program_.err();
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  int port() const { return port_; }
  std::uint64_t resident_bytes() const {
    std::ifstream in("/proc/" + std::to_string(program_.pid()) + "/status");
    for (std::string word; in >> word;) {
      std::uint64_t kib = 0;
      if (word == "VmRSS:" && in >> kib) return kib << 10;
    }
    return 0;
  }

 private:
  static std::vector<std::string> arguments(const std::vector<std::string>& flags) {
    std::vector<std::string> all = {"serve", kNano,  "--port",    "0",
                                    "--ram", "256M", "--threads", "1"};
    all.insert(all.end(), flags.begin(), flags.end());
    return all;
  }

  Program program_;
  int port_ = 0;
};

/// A number from the environment, for tests that can also be run larger.
inline std::size_t number_from(const char* variable, std::size_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoul(text);
}

}  // namespace sluice::cli
