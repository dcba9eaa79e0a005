// sluice batch: one result for each request, however often it is interrupted.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <map>
#include <thread>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

constexpr int kRequests = 8;

std::string requests() {
  std::string lines;
  for (int i = 0; i < kRequests; ++i) {
    const Json line = {
        {"custom_id", "request-" + std::to_string(i)},
        {"method", "POST"},
        {"url", "/v1/completions"},
        {"body",
         {{"model", "k3-nano"}, {"prompt", "Chapter " + std::to_string(i)}, {"max_tokens", 24}}}};
    lines += line.dump() + "\n";
  }
  return lines;
}

/// By custom_id: what was written. Each id may be there once.
std::map<std::string, Json> results_of(const std::string& path) {
  std::map<std::string, Json> results;
  std::string text = read_file(path);
  for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
    const Json line = Json::parse(text.substr(0, end));
    EXPECT_TRUE(results.emplace(line["custom_id"], line["response"]["body"]["choices"]).second)
        << line["custom_id"];
  }
  EXPECT_EQ(text, "");
  return results;
}

TEST(Batch, HasOneResultForEachRequestAfterAnyNumberOfKills) {
  const Folder folder;
  write_file(folder / "in.jsonl", requests());
  const auto arguments = [&](const std::string& out) {
    return std::vector<std::string>{"batch",      folder / "in.jsonl", "--model", kNano,    "--out",
                                    folder / out, "--threads",         "1",       "--quiet"};
  };
  const Finished whole = run_program(arguments("whole.jsonl"));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const auto expected = results_of(folder / "whole.jsonl");
  EXPECT_EQ(expected.size(), static_cast<std::size_t>(kRequests));

  for (int i = 0; i < 10; ++i) {
    Program program(arguments("killed.jsonl"));
    std::this_thread::sleep_for(std::chrono::milliseconds(30 + 13 * i));
    program.kill();
    program.finish();
  }
  const Finished last = run_program(arguments("killed.jsonl"));
  EXPECT_EQ(last.exit_code, 0) << last.err;
  EXPECT_EQ(results_of(folder / "killed.jsonl"), expected);
}

TEST(Batch, ReportsWhatIsWrongByLine) {
  const Folder folder;
  write_file(folder / "in.jsonl", "{\"custom_id\": \"a\"}\n");
  const Finished run =
      run_program({"batch", folder / "in.jsonl", "--model", kNano, "--out", folder / "out"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("line 1"), std::string::npos) << run.err;
  write_file(folder / "foreign", "some text\n");
  const Finished foreign =
      run_program({"batch", folder / "in.jsonl", "--model", kNano, "--out", folder / "foreign"});
  EXPECT_EQ(foreign.exit_code, 2);
  EXPECT_EQ(read_file(folder / "foreign"), "some text\n");
}

}  // namespace
}  // namespace sluice::cli
