// sluice batch: one result for each request, however often it is interrupted.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <thread>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

constexpr int kRequests = 8;

std::string requests(int count = kRequests) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
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

/// A pipe with a name that is full until it is drained: who writes into it waits.
class FullPipe {
 public:
  explicit FullPipe(const std::string& path) {
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    descriptor_ = ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    EXPECT_GE(descriptor_, 0);
    const std::string page(4096, 'x');
    while (::write(descriptor_, page.data(), page.size()) > 0) bytes_ += page.size();
  }
  ~FullPipe() { ::close(descriptor_); }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;

  void drain() {
    std::string taken(bytes_, '\0');
    EXPECT_EQ(::read(descriptor_, taken.data(), bytes_), static_cast<ssize_t>(bytes_));
  }

 private:
  int descriptor_ = -1;
  std::size_t bytes_ = 0;
};

TEST(Batch, TheSecondAtATimeIsRefused) {
  const Folder folder;
  const std::vector<std::string> arguments = {"batch", folder / "in.jsonl", "--model", kNano,
                                              "--out", folder / "out.jsonl"};
  const auto written = [&] {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(folder / "out.jsonl", error);
    return error ? 0 : size;
  };
  for (const bool is_there : {false, true}) {  // the file of results, when both begin
    write_file(folder / "in.jsonl", requests(is_there ? kRequests : kRequests / 2));
    const std::uintmax_t before = written();
    // It cannot end before its statistics are taken, however fast it is.
    const std::string name = folder / (is_there ? "pipe-2" : "pipe-1");
    FullPipe statistics(name);
    std::vector<std::string> held = arguments;
    held.insert(held.end(), {"--stats-json", name});
    Program first(held);
    while (written() == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const Finished second = run_program(arguments);
    if (is_there) {
      statistics.drain();
    } else {
      first.kill();
    }
    EXPECT_EQ(second.exit_code, 2) << second.err;
    EXPECT_NE(second.err.find("another sluice batch is writing into this file"), std::string::npos)
        << second.err;
    EXPECT_EQ(first.finish().exit_code, is_there ? 0 : 137);
  }
  EXPECT_EQ(results_of(folder / "out.jsonl").size(), static_cast<std::size_t>(kRequests));
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

Json line_of(const std::string& name, const std::string& prompt) {
  return {{"custom_id", name},
          {"method", "POST"},
          {"url", "/v1/completions"},
          {"body", {{"model", "k3-nano"}, {"prompt", prompt}, {"max_tokens", 2}}}};
}

Finished answer(const std::string& requests, const std::string& out) {
  return run_program({"batch", requests, "--model", kNano, "--out", out});
}

TEST(Batch, NeverWritesOntoItsRequests) {
  const Folder folder;
  const std::string requests = line_of("a", "Alice").dump() + "\n";
  write_file(folder / "in", requests);
  fs::create_symlink(folder / "in", folder / "link");
  for (const char* name : {"in", "link"}) {
    const Finished run = answer(folder / "in", folder / name);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_NE(run.err.find("is what this command reads"), std::string::npos) << run.err;
  }
  fs::copy_file(folder / "in", folder / "copy");
  const Finished copy = answer(folder / "in", folder / "copy");
  EXPECT_EQ(copy.exit_code, 2) << copy.err;
  EXPECT_NE(copy.err.find("line 1 is no result"), std::string::npos) << copy.err;
  EXPECT_EQ(read_file(folder / "in"), requests);
  EXPECT_EQ(read_file(folder / "copy"), requests);
}

TEST(Batch, NeverCutsWhatIsNoResult) {
  const Folder folder;
  write_file(folder / "in", line_of("a", "Alice").dump() + "\n");
  for (const std::string text : {"no line end", "{\"id\":\"other_", "\x80\x01"}) {
    write_file(folder / "out", text);
    EXPECT_EQ(answer(folder / "in", folder / "out").exit_code, 2);
    EXPECT_EQ(read_file(folder / "out"), text);
  }
}

TEST(Batch, RefusesAFileWithoutRequests) {
  const Folder folder;
  write_file(folder / "in", "\n \n");
  const Finished run = answer(folder / "in", folder / "out");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.err, "sluice: error: FILE: " + (folder / "in") + ": there is no request in it\n");
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(Batch, ShowsOnATerminalHowFarItHasReadWhatIsThere) {
  const Folder folder;
  write_file(folder / "in", line_of("a", "Alice").dump() + "\n");
  ASSERT_EQ(answer(folder / "in", folder / "out").exit_code, 0);
  Program again({"batch", folder / "in", "--model", kNano, "--out", folder / "out"},
                Program::Errors::terminal);
  const Finished run = again.finish();
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_NE(run.err.find("results from before: 1 read\033[K"), std::string::npos) << run.err;
}

TEST(Batch, KnowsThatARequestHasChanged) {
  const Folder folder;
  write_file(folder / "in", line_of("a", "Alice").dump() + "\n");
  ASSERT_EQ(answer(folder / "in", folder / "out").exit_code, 0);
  const std::string first = read_file(folder / "out");

  // The same request, written otherwise, and one more.
  Json same = line_of("a", "Alice");
  same["body"] = Json::parse(R"({"max_tokens":2,"prompt":"Alice","model":"k3-nano"})");
  std::string spaced = same.dump();
  spaced.insert(1, "  ");
  write_file(folder / "in", spaced + "\n" + line_of("b", "Ahab").dump() + "\n");
  const Finished more = answer(folder / "in", folder / "out");
  EXPECT_EQ(more.exit_code, 0) << more.err;
  const std::string both = read_file(folder / "out");
  EXPECT_EQ(both.substr(0, first.size()), first);
  EXPECT_EQ(lines_of(both), 2u);

  write_file(folder / "in", line_of("a", "Ishmael").dump() + "\n");
  const Finished changed = answer(folder / "in", folder / "out");
  EXPECT_EQ(changed.exit_code, 2) << changed.err;
  EXPECT_NE(changed.err.find("line 1"), std::string::npos) << changed.err;
  EXPECT_NE(changed.err.find("\"a\", but of another request"), std::string::npos) << changed.err;
  EXPECT_EQ(read_file(folder / "out"), both);
}

TEST(Batch, EndsWithTheCodeOfTheFirstRequestThatGotNoAnswer) {
  const Folder folder;
  Json bad = line_of("bad", "x");
  bad["body"]["temperature"] = -1;
  Json longer = line_of("longer", "Alice");
  longer["body"]["max_tokens"] = 1;
  longer["body"]["prompt"] = std::vector<int>(5000, 1);
  write_file(folder / "in", line_of("a", "Alice").dump() + "\n" + bad.dump() + "\n" +
                                longer.dump() + "\n" + line_of("b", "Ahab").dump() + "\n");
  const Finished run = answer(folder / "in", folder / "out");
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_NE(run.err.find("2 of 4 requests have an answer, 2 do not; 0 were known from before"),
            std::string::npos)
      << run.err;
  EXPECT_NE(run.err.find("error: 2 of 4 requests got no answer; " + (folder / "out")),
            std::string::npos)
      << run.err;
  EXPECT_EQ(lines_of(read_file(folder / "out")), 4u);

  // Nothing is left to do, which makes no answer of a refusal. Quiet or not, it is said.
  const Finished again =
      run_program({"batch", folder / "in", "--model", kNano, "--out", folder / "out", "-q"});
  EXPECT_EQ(again.exit_code, 2) << again.err;
  EXPECT_NE(again.err.find("2 of 4 requests got no answer"), std::string::npos) << again.err;
  EXPECT_EQ(lines_of(read_file(folder / "out")), 4u);

  write_file(folder / "in", longer.dump() + "\n");
  EXPECT_EQ(answer(folder / "in", folder / "out2").exit_code, 4);
}

TEST(Batch, ReadsALongFileOfRequestsWithinItsMemory) {
  const Folder folder;
  std::ofstream file(folder / "in");  // this process must not hold it either: it counts, too
  for (int i = 0; i < 200; ++i) {
    Json line = line_of("request-" + std::to_string(i), "Alice");
    line["body"]["metadata"] = std::string(500'000, 'x');
    file << line << '\n';
  }
  file << line_of("request-3", "Alice") << '\n';
  file.close();
  const std::vector<std::string> arguments = {"batch", folder / "in",  "--model", kNano,
                                              "--out", folder / "out", "--ram",   "64M"};
  const Finished twice = run_program(arguments);
  EXPECT_EQ(twice.exit_code, 2) << twice.err;
  EXPECT_NE(twice.err.find("line 201: custom_id \"request-3\" comes twice"), std::string::npos)
      << twice.err;
  write_file(folder / "in", "");
  fs::resize_file(folder / "in", 200'000'000);  // one line, of nothing
  const Finished endless = run_program(arguments);
  EXPECT_EQ(endless.exit_code, 2) << endless.err;
  EXPECT_NE(endless.err.find("line 1: longer than"), std::string::npos) << endless.err;
#ifndef SLUICE_MEMORY_OF_OTHERS
  EXPECT_LT(twice.peak_rss_bytes, 64u << 20);
  EXPECT_LT(endless.peak_rss_bytes, 64u << 20);
#endif
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(Batch, TakesItsRequestsFromAPipe) {
  const Folder folder;
  const Finished run = run_program({"batch", "-", "--model", kNano, "--out", folder / "out"},
                                   line_of("a", "Alice").dump());
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(results_of(folder / "out").size(), 1u);
}

TEST(Batch, SaysThatADeviceIsFull) {
  const Folder folder;
  write_file(folder / "in", line_of("a", "Alice").dump() + "\n");
  const Finished run = answer(folder / "in", "/dev/full");
  EXPECT_EQ(run.exit_code, 5);
  EXPECT_NE(run.err.find("/dev/full: cannot be written: No space left"), std::string::npos)
      << run.err;
  EXPECT_EQ(run.err.find("prompt"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace sluice::cli
