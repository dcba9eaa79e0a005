// A drive that takes nothing for a while costs no job and no answer.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "server/database.h"
#include "server/folder.h"
#include "server/job_store.h"
#include "server/served.h"

namespace sluice::server {
namespace {

/// What the process tells its user, meanwhile.
class Told {
 public:
  Told() : before_(::dup(STDERR_FILENO)) {
    const int file = ::open(path().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(file, STDERR_FILENO);
    ::close(file);
  }
  ~Told() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
  }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path()).rdbuf();
    return all.str();
  }
  bool wait_for(const std::string& what) const {
    for (int i = 0; i < 20'000; ++i) {
      if (text().find(what) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

 private:
  std::string path() const { return folder_.path() / "told"; }
  const Folder folder_;
  const int before_;
};

/// A request in the background, of which a certain change cannot be written before there is a file.
void prepare(const Folder& folder, const std::string& change) {
  StoredJob job;
  job.id = "1";
  job.endpoint = "/v1/chat/completions";
  job.body = chat("A whale?").dump();
  {
    const auto store = std::move(*JobStore::open(folder.path()));
    ASSERT_TRUE(store->add_job(job));
  }
  Database database = std::move(*Database::open(folder.path() / "jobs.sqlite"));
  const std::string trigger = "CREATE TRIGGER full BEFORE UPDATE ON jobs WHEN " + change +
                              " AND NOT EXISTS (SELECT 1 FROM files) BEGIN "
                              "SELECT RAISE(ABORT, 'no room'); END";
  ASSERT_TRUE(database.run(trigger.c_str()));
}

std::unique_ptr<Server> start_in(const Folder& folder) {
  ServerOptions options = options_for_tests();
  options.state_folder = folder.path();
  return start(options);
}

/// When there is room again after something could not be written.
TestJson answer_after_failure(const Folder& folder) {
  const Told told;
  const auto server = start_in(folder);
  EXPECT_TRUE(told.wait_for("no room"));
  upload(server->port(), "{}\n");
  TestJson json;
  for (int i = 0; i < 20'000; ++i) {
    json = get(server->port(), "/v1/chat/completions/chatcmpl-1").json();
    if (json["status"] != "in_progress" && json["status"] != "queued") return json;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return json;
}

TEST(AServerWithoutRoom, KeepsAnAnswerUntilThereIsSome) {
  const Folder folder;
  prepare(folder, "NEW.status='done'");
  const TestJson answer = answer_after_failure(folder);
  EXPECT_EQ(answer["status"], "completed") << answer;
}

TEST(AServerWithoutRoom, BeginsAJobOnceThereIsSome) {
  const Folder folder;
  prepare(folder, "NEW.status='running'");
  const TestJson answer = answer_after_failure(folder);
  EXPECT_EQ(answer["status"], "completed") << answer;
}

TEST(AServerWithoutRoom, EndsAllTheSame) {
  const Folder folder;
  prepare(folder, "NEW.status='done'");
  {
    const Told told;
    const auto server = start_in(folder);
    EXPECT_TRUE(told.wait_for("no room"));
  }
  const auto store = std::move(*JobStore::open(folder.path()));
  EXPECT_EQ((*store->job("1"))->status, "waiting");
}

}  // namespace
}  // namespace sluice::server
