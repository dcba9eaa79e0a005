// sluice serve: who may use it, and that the budget is a ceiling for it, too.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "cli/models.h"
#include "cli/program.h"

namespace sluice::cli {
namespace {

TEST(Serve, WantsAKeyOrAWordBeforeOthersMayUseIt) {
  const Folder folder;
  write_file(folder / "short", "tooshort\n");
  write_file(folder / "empty", "# none\n");
  const auto refused = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"serve", kNano};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Finished run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    return run.err;
  };
  EXPECT_NE(refused({"--host", "0.0.0.0"}).find("--api-key-file"), std::string::npos);
  EXPECT_NE(refused({"--api-key-file", folder / "short"}).find("line 1"), std::string::npos);
  EXPECT_NE(refused({"--api-key-file", folder / "empty"}).find("no key"), std::string::npos);
  EXPECT_NE(refused({"--api-key-file", folder / "."}).find("is a folder"), std::string::npos);
  EXPECT_NE(refused({"--api-key-file", folder / "none"}).find("cannot be read"), std::string::npos);
  EXPECT_NE(refused({"--host", "no.such.name", "--no-auth"}).find("--host"), std::string::npos);
}

TEST(Serve, RefusesMoreSavedConversationsThanThereIsRoomFor) {
  const std::vector<std::string> serve = {"serve", kNano, "--port", "0", "--state-ram", "9G"};
  std::vector<std::string> small = serve;
  small.insert(small.end(), {"--ram", "256M"});
  const Finished run = run_program(small);
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_NE(run.err.find("--state-ram: 9.00 GiB"), std::string::npos) << run.err;
  const std::size_t at = run.err.find("--ram ", run.err.find("smallest"));
  ASSERT_NE(at, std::string::npos) << run.err;
  std::vector<std::string> named = serve;
  named.insert(named.end(), {"--ram", run.err.substr(at + 6)});
  named.back().erase(named.back().find('M') + 1);
  Program program(named);
  EXPECT_TRUE(program.wait_for_err("is served")) << named.back();
  program.interrupt();
  EXPECT_EQ(program.finish().exit_code, 0);
}

TEST(Serve, AFolderOfStateHasOneServer) {
  const Folder folder;
  const std::string state = folder / "state";
  const std::vector<std::string> serve = {"serve", kNano, "--port", "0", "--state-dir", state};
  Program first(serve);
  ASSERT_TRUE(first.wait_for_err("is served"));
  const Finished second = run_program(serve);
  EXPECT_EQ(second.exit_code, 2) << second.err;
  EXPECT_NE(second.err.find(state + ": another sluice serve"), std::string::npos) << second.err;
  first.interrupt();
  EXPECT_EQ(first.finish().exit_code, 0);

  write_file(folder / "file", "x");
  const Finished file = run_program({"serve", kNano, "--state-dir", folder / "file"});
  EXPECT_EQ(file.exit_code, 2) << file.err;
  EXPECT_NE(file.err.find("is no folder"), std::string::npos) << file.err;
}

TEST(Serve, EndsWellWhenASupervisorEndsIt) {
  const Folder folder;
  Program program({"serve", kNano, "--port", "0", "--state-dir", folder / "state"});
  ASSERT_TRUE(program.wait_for_err("is served"));
  ::kill(program.pid(), SIGTERM);
  const Finished run = program.finish();
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.err.find("the server ends"), std::string::npos) << run.err;
  EXPECT_FALSE(fs::exists(folder / "state/jobs.sqlite-wal")) << "the database was closed";
}

TEST(Serve, EndsAtOnceWhenASupervisorEndsItBeforeItListens) {
  const Folder folder;
  ASSERT_EQ(::mkfifo((folder / "keys").c_str(), 0600), 0);  // its reading waits for a writer
  Program program({"serve", kNano, "--port", "0", "--api-key-file", folder / "keys"});
  const int keys = ::open((folder / "keys").c_str(), O_WRONLY);  // until it reads
  ::kill(program.pid(), SIGTERM);
  EXPECT_EQ(program.finish().exit_code, 143);
  ::close(keys);
}

TEST(Serve, WantsToKnowWhereStatesAreWritten) {
  for (const char* flag : {"--state-disk", "--state-write"}) {
    const Finished run = run_program({"serve", kNano, "--port", "0", flag, "1G"});
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_NE(run.err.find(std::string(flag) + ": needs --state-dir"), std::string::npos)
        << run.err;
  }
}

TEST(Serve, SaysEarlyThatAModelHasNoTokenizer) {
  const ModelCopy copy(kTiny);
  fs::remove(copy / "tiktoken.model");
  const Folder folder;
  const Finished run =
      run_program({"serve", copy.path(), "--port", "0", "--state-dir", folder / "state"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_NE(run.err.find("has no tokenizer"), std::string::npos) << run.err;
  EXPECT_FALSE(fs::exists(folder / "state")) << "nothing was begun";
}

/// Sends a request, and returns what comes until the server hangs up.
std::string talk(int port, const std::string& request) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(::send(socket, request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string received;
  char room[4096];
  for (ssize_t count = 0; (count = ::recv(socket, room, sizeof(room), 0)) > 0;) {
    received.append(room, static_cast<std::size_t>(count));
  }
  ::close(socket);
  return received;
}

std::string completion(const std::string& more) {
  const std::string body =
      R"({"model":"k3-nano","prompt":"It was on a dreary night","seed":1,)" + more + "}";
  return "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: "
         "close\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// With the smallest memory that works with these flags.
void hold_the_budget(const std::vector<std::string>& flags) {
  const auto with_ram = [&](const std::string& ram) {
    std::vector<std::string> all = {"serve", kNano, "--port", "0", "--threads", "2", "--ram", ram};
    all.insert(all.end(), flags.begin(), flags.end());
    return all;
  };
  const Finished refused = run_program(with_ram("1M"));
  EXPECT_EQ(refused.exit_code, 4) << refused.err;
  const std::size_t at = refused.err.find("--ram ");
  ASSERT_NE(at, std::string::npos) << refused.err;
  const std::uint64_t ram = std::stoull(refused.err.substr(at + 6)) << 20;

  Program server(with_ram(std::to_string(ram)));
  ASSERT_TRUE(server.wait_for_err("/v1 ")) << server.err();
  const int port = std::stoi(server.err().substr(server.err().find("127.0.0.1:") + 10));
  for (const char* more : {R"("max_tokens":40)", R"("max_tokens":40,"n":3,"logprobs":5)",
                           R"("max_tokens":16,"stream":true,"logit_bias":{"5":1})"}) {
    EXPECT_TRUE(talk(port, completion(more)).starts_with("HTTP/1.1 200")) << more;
  }
  // The largest body that is taken, made of what needs most room, refused only once it is parsed.
  std::string wide = "[";
  for (int i = 0; i < 28'000; ++i) wide += "{\"a\":[]},";
  talk(port, completion("\"x\":" + wide + "1]"));
  EXPECT_TRUE(talk(port, completion(R"("max_tokens":1)")).starts_with("HTTP/1.1 200"));
  server.interrupt();
  const Finished run = server.finish();
  EXPECT_EQ(run.exit_code, 0) << run.err;
#ifndef SLUICE_SANITIZED
  EXPECT_LE(run.peak_rss_bytes, ram);
#endif
}

TEST(Serve, Promise3HoldsTheBudgetWhateverIsAsked) { hold_the_budget({}); }

TEST(Serve, Promise3HoldsTheBudgetWithConversationsOnDisk) {
  const Folder folder;
  hold_the_budget({"--state-dir", folder / "state"});
  EXPECT_FALSE(std::filesystem::is_empty(folder / "state/states"));
}

}  // namespace
}  // namespace sluice::cli
