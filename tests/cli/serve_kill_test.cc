// Whatever moment a server is killed at: every request of a batch gets one result, that of an
// undisturbed run. A few kills at chosen moments here; many at random moments with
//   SLUICE_KILLS=50 build/test_cli --gtest_filter='AKilledServer.*'
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "cli/served.h"

namespace sluice::cli {
namespace {

using server::Answered;
using server::ask;
using server::get;
using server::TestJson;

constexpr std::size_t kTokens = 200;  // of each answer: three checkpoints

std::vector<std::string> on(const std::string& state_folder) {
  return {"--state-dir", state_folder};
}

std::string batch_lines(std::size_t requests) {
  std::string lines;
  for (std::size_t i = 0; i < requests; ++i) {
    TestJson body = {{"model", "k3-nano"},
                     {"prompt", "Chapter " + std::to_string(i) + ". It was on a dreary night"},
                     {"max_tokens", kTokens + i % 3 * 40},
                     {"seed", i},
                     {"temperature", i % 4 == 0 ? 0.0 : 0.8},
                     {"presence_penalty", 0.3},
                     {"logit_bias", server::never_ending()}};
    if (i % 5 == 1) body["logprobs"] = 2;
    if (i % 5 == 2) body.update({{"n", 2}, {"max_tokens", 90}});
    const TestJson line = {{"custom_id", "request " + std::to_string(i)},
                           {"method", "POST"},
                           {"url", "/v1/completions"},
                           {"body", body}};
    lines += line.dump() + "\n";
  }
  return lines;
}

std::string begin_batch(int port, const std::string& lines) {
  const TestJson batch = {{"input_file_id", server::upload(port, lines)},
                          {"endpoint", "/v1/completions"},
                          {"completion_window", "24h"}};
  const Answered begun = ask(port, "POST", "/v1/batches", batch.dump());
  EXPECT_EQ(begun.status, 200) << begun.body;
  return begun.json()["id"];
}

TestJson batch_of(int port, const std::string& id) { return get(port, "/v1/batches/" + id).json(); }

/// False if the batch ended before.
bool wait_for(int port, const std::string& batch, std::size_t results, std::size_t tokens) {
  while (true) {
    const TestJson now = batch_of(port, batch);
    if (now["status"] != "in_progress") return false;
    const std::size_t done = now["request_counts"]["completed"];
    const TestJson request = get(port, "/v1/status").json()["request"];
    if (done > results) return true;
    if (done == results && !request.is_null() && request["tokens"] >= tokens) return true;
  }
}

/// By custom_id: what the client sees of each answer but for ids and times.
std::map<std::string, TestJson> results_of(int port, const std::string& batch) {
  while (batch_of(port, batch)["status"] == "in_progress") {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const TestJson ended = batch_of(port, batch);
  EXPECT_EQ(ended["status"], "completed") << ended;
  EXPECT_TRUE(ended["error_file_id"].is_null()) << ended;
  const std::string file = ended["output_file_id"].get<std::string>();
  const std::string text = get(port, "/v1/files/" + file + "/content").body;
  std::map<std::string, TestJson> results;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const TestJson line = TestJson::parse(text.substr(at, end - at));
    TestJson body = line["response"]["body"];
    const TestJson seen = {{"choices", body["choices"]},
                           {"tokens", body["usage"]["completion_tokens"]}};
    EXPECT_TRUE(results.emplace(line["custom_id"], seen).second) << "two results: " << line;
    at = end + 1;
  }
  return results;
}

TEST(AKilledServer, EndsABatchAsIfNothingHadHappened) {
  const std::size_t kills = number_from("SLUICE_KILLS", 0);
  const Folder folder;
  const std::string lines = batch_lines(kills > 0 ? 30 : 5);
  std::map<std::string, TestJson> expected;
  const auto start = std::chrono::steady_clock::now();
  {
    const Served server(on(folder / "undisturbed"));
    expected = results_of(server.port(), begin_batch(server.port(), lines));
  }
  const std::chrono::duration<double> undisturbed = std::chrono::steady_clock::now() - start;
  std::vector<std::string> batches;
  {
    const Served server(on(folder / "killed"));
    batches.push_back(begin_batch(server.port(), lines));
  }  // killed as soon as the batch is acknowledged
  std::size_t under_way = 0;
  if (kills == 0) {
    struct Moment {
      std::size_t results;
      std::size_t tokens;
    };
    for (const Moment moment : {Moment{0, 100}, Moment{0, 150}, Moment{2, 70}, Moment{3, 1}}) {
      const Served server(on(folder / "killed"));
      // When it was over before anybody looked, another one is killed at this moment.
      while (!wait_for(server.port(), batches.back(), moment.results, moment.tokens)) {
        ASSERT_EQ(results_of(server.port(), batches.back()), expected);
        batches.push_back(begin_batch(server.port(), lines));
      }
    }
  }
  std::mt19937 random(static_cast<unsigned>(number_from("SLUICE_SEED", std::random_device()())));
  std::uniform_real_distribution<double> seconds(0, undisturbed.count() / 50);
  for (std::size_t kill = 1; kill < kills; ++kill) {
    const Served server(on(folder / "killed"));
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds(random)));
    under_way += batch_of(server.port(), batches.back())["status"] == "in_progress" ? 1 : 0;
  }
  const Served server(on(folder / "killed"));
  for (const std::string& batch : batches) {
    EXPECT_EQ(results_of(server.port(), batch), expected);
  }
  if (kills > 0) {
    fmt::print("{} kills, {} of them while the batch was under way; {} requests\n", kills,
               under_way + 1, expected.size());
  }
}

}  // namespace
}  // namespace sluice::cli
