// Sixteen clients at once, of whom a third leaves at random: the others get the answers that they
// would get alone, the queue keeps its limit, and nothing is left behind. Few requests here, many
// with
//   SLUICE_REQUESTS=1000 build/test_cli --gtest_filter='ACrowd.*'
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "cli/served.h"

namespace sluice::cli {
namespace {

using server::Answered;
using server::Client;
using server::get;
using server::TestJson;

constexpr std::size_t kClients = 16;
constexpr std::size_t kQueue = 8;
constexpr std::size_t kWords = 24;  // different requests

/// The request of a code word, streamed for every second one.
TestJson request_of(std::size_t word) {
  return {{"model", "k3-nano"},
          {"prompt", "The code word of captain number " + std::to_string(word) + " was"},
          {"max_tokens", 12 + word % 5 * 6},
          {"temperature", word % 3 == 0 ? 0.0 : 1.0},
          {"seed", word},
          {"stream", word % 2 == 0},
          {"logit_bias", server::never_ending()}};
}

/// Where connections are wanting, who connects and then sends nothing for a while is hung up on: on
/// a busy machine that may be anybody.
bool was_slow(const Answered& answer) { return answer.status == 0 || answer.status == 408; }

/// The text, or nothing if the queue was full or all connections were taken; every refusal says
/// when to come again.
std::optional<std::string> ask_for(int port, std::size_t word) {
  const Answered answer = server::post(port, "/v1/completions", request_of(word));
  if (was_slow(answer)) return std::nullopt;
  if (answer.status == 429 || answer.status == 503) {
    EXPECT_GE(std::stoi(answer.headers.at("retry-after")), 1);
    if (answer.status == 429) {
      EXPECT_EQ(answer.headers.at("x-queue-position"), std::to_string(kQueue + 1));
    }
    return std::nullopt;
  }
  EXPECT_EQ(answer.status, 200) << answer.body;
  if (answer.status != 200) return "";
  if (word % 2 != 0) return answer.json()["choices"][0]["text"].get<std::string>();
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
  std::string text;
  for (const TestJson& event : answer.events()) {
    text += event["choices"][0]["text"].get<std::string>();
  }
  return text;
}

class Crowd {
 public:
  Crowd(int port, const std::map<std::size_t, std::string>& alone) : port_(port), alone_(alone) {}

  /// All together; each client has dealings of its own until that many were begun.
  void send(std::size_t requests, unsigned seed) {
    left_ = requests;
    std::vector<std::thread> clients;
    for (std::size_t i = 0; i < kClients; ++i) {
      clients.emplace_back([this, i, seed] { work(seed + static_cast<unsigned>(i)); });
    }
    for (std::thread& client : clients) client.join();
  }
  std::size_t answered() const { return answered_; }
  std::size_t refused() const { return refused_; }

 private:
  void work(unsigned seed) {
    std::mt19937 random(seed);
    while (left_.fetch_sub(1) > 0) {
      const std::size_t word = random() % kWords;
      if (random() % 3 == 0) {
        leave(word, random() % 40);
      } else {
        insist(word);
      }
    }
  }

  void leave(std::size_t word, std::size_t after_ms) const {
    Client client(port_);
    client.write(server::wire("POST", "/v1/completions", request_of(word).dump()));
    std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
  }

  void insist(std::size_t word) {
    while (!::testing::Test::HasFailure()) {  // a server that is gone serves nobody
      const auto text = ask_for(port_, word);
      if (text) {
        EXPECT_EQ(*text, alone_.at(word)) << word;
        ++answered_;
        return;
      }
      ++refused_;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // sooner than it was told
    }
  }

  const int port_;
  const std::map<std::size_t, std::string>& alone_;
  std::atomic<std::int64_t> left_{0};
  std::atomic<std::size_t> answered_{0};
  std::atomic<std::size_t> refused_{0};
};

void wait_until_idle(int port) {
  while (!::testing::Test::HasFailure()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const Answered answer = get(port, "/v1/status");
    // Who has left still has a connection for a moment.
    if (answer.status == 503 || was_slow(answer)) continue;
    ASSERT_EQ(answer.status, 200);
    const TestJson now = answer.json();
    EXPECT_LE(now["queued"], kQueue);
    if (now["phase"] == "idle" && now["queued"] == 0) return;
  }
}

TEST(ACrowd, GetsTheAnswersOfSingleClients) {
  const std::size_t requests = number_from("SLUICE_REQUESTS", 0);
  const Folder folder;
  const Served server({"--queue", std::to_string(kQueue), "--state-dir", folder / "state",
                       "--state-disk", "64M", "--state-ram", "4M"});
  std::map<std::size_t, std::string> alone;
  for (std::size_t word = 0; word < kWords; ++word) {
    alone[word] = ask_for(server.port(), word).value();
  }
  Crowd crowd(server.port(), alone);
  // The first ones fill what is kept: conversations in memory, and the threads' heaps.
  crowd.send(requests > 0 ? 200 : 24, 1);
  wait_until_idle(server.port());
  const std::uint64_t before = server.resident_bytes();
  crowd.send(requests > 0 ? requests : 40, 1000);
  wait_until_idle(server.port());
  const std::uint64_t after = server.resident_bytes();
  EXPECT_GT(crowd.answered(), 0u);
  if (requests < 1000) return;  // of a few, what they leave says nothing
  EXPECT_LE(after, before + before / 50);
  fmt::print(
      "{} answers like single ones', {} refusals by the full queue; {} MiB before, {} after\n",
      crowd.answered(), crowd.refused(), before >> 20, after >> 20);
}

}  // namespace
}  // namespace sluice::cli
