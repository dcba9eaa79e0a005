// Jobs that cannot be done: they are tried again, but not for ever, and hold nobody up.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "io/fault_reader.h"
#include "io/make_reader.h"
#include "server/client.h"
#include "server/folder.h"
#include "server/job_store.h"
#include "server/served.h"

namespace sluice::server {
namespace {

ServerOptions options_in(const Folder& folder) {
  ServerOptions options = options_for_tests();
  options.state_folder = folder.path();
  return options;
}

/// Of a request in the background, once it has ended.
TestJson ended(int port, const std::string& id) {
  TestJson json;
  for (int i = 0; i < 20'000; ++i) {
    json = get(port, std::string(kChat) + "/" + id).json();
    if (json["status"] != "in_progress" && json["status"] != "queued") return json;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ADD_FAILURE() << "it does not end: " << json;
  return json;
}

std::string begin_in_background(int port) {
  const Answered kept = post(port, kChat, chat("A whale?", {{"background", true}}));
  EXPECT_EQ(kept.status, 202) << kept.body;
  return kept.json()["id"];
}

StoredJob chat_job(const std::string& id) {
  StoredJob job;
  job.id = id;
  job.endpoint = kChat;
  job.body = chat("A whale?").dump();
  return job;
}

/// Servers that die with the job `fatal` in their hands, so often; then one that lives.
TestJson after_deaths(int deaths, TestJson& good, const StoredJob& fatal = chat_job("fatal")) {
  const Folder folder;
  for (int i = 0; i < deaths; ++i) {
    const auto store = std::move(*JobStore::open(folder.path()));
    if (i == 0) {
      EXPECT_TRUE(store->add_job(fatal));
      EXPECT_TRUE(store->add_job(chat_job("good")));
    }
    EXPECT_EQ((*store->begin_next())->id, "fatal");
  }
  const auto server = start(options_in(folder));
  good = ended(server->port(), "chatcmpl-good");
  return ended(server->port(), "chatcmpl-fatal");
}

TEST(AJobThatEndsTheProcess, IsSetAsideAfterTwelveTimes) {
  TestJson good;
  const TestJson fatal = after_deaths(12, good);
  EXPECT_EQ(fatal["status"], "failed");
  EXPECT_EQ(fatal["error"]["code"], "too_many_attempts") << fatal;
  EXPECT_EQ(good["status"], "completed") << good;
}

TEST(AJobThatEndsTheProcess, IsTriedATwelfthTime) {
  TestJson good;
  EXPECT_EQ(after_deaths(11, good)["status"], "completed");
  EXPECT_EQ(good["status"], "completed") << good;
}

// Its very reading may be what ends the process: it is counted before.
TEST(AJobThatEndsTheProcess, IsSetAsideUnread) {
  StoredJob fatal = chat_job("fatal");
  fatal.body = "{}";  // would be refused by its reader
  TestJson good;
  const TestJson failed = after_deaths(12, good, fatal);
  EXPECT_EQ(failed["error"]["code"], "too_many_attempts") << failed;
  EXPECT_EQ(good["status"], "completed") << good;
}

/// Reads from a drive that may break, and be mended.
class BreakingReader final : public io::Reader {
 public:
  BreakingReader(std::unique_ptr<Reader> good, const std::atomic<bool>& is_broken)
      : good_(std::move(good)),
        bad_(io::make_fault_reader(std::move(*io::make_reader(io::IoMode::pread)),
                                   {.faults = {io::ReadFault{}}})),
        is_broken_(is_broken) {}

  Result<io::FileId> open(const std::filesystem::path& path) override {
    SLUICE_ASSIGN(const io::FileId file, good_->open(path));
    SLUICE_ASSIGN(const io::FileId same, bad_->open(path));
    EXPECT_EQ(file, same);
    return file;
  }
  std::uint64_t size(io::FileId file) const override { return good_->size(file); }
  const std::filesystem::path& path(io::FileId file) const override { return good_->path(file); }
  std::size_t drive_of(io::FileId file) const override { return good_->drive_of(file); }
  std::size_t room_for(std::uint64_t length) const override { return good_->room_for(length); }
  void submit(std::span<const io::ReadRequest> requests) override {
    (is_broken_ ? bad_ : good_)->submit(requests);
  }
  void promote(const io::CompletionSink& sink, std::uint64_t tag) override {
    good_->promote(sink, tag);
  }
  void cancel(const io::CompletionSink& sink) override {
    good_->cancel(sink);
    bad_->cancel(sink);
  }
  io::ReaderStatistics statistics() const override { return good_->statistics(); }
  std::uint64_t memory_bytes() const override {
    return good_->memory_bytes() + bad_->memory_bytes();
  }

 private:
  const std::unique_ptr<Reader> good_;
  const std::unique_ptr<Reader> bad_;
  const std::atomic<bool>& is_broken_;
};

TEST(AJobWhoseDriveFails, IsSetAsideAfterThreeTimes) {
  std::atomic<bool> is_broken = false;
  const Folder folder;
  std::string id;
  {
    ServerOptions options = options_in(folder);
    options.host.engine.wrap_reader = [&](std::unique_ptr<io::Reader> inner) {
      return std::make_unique<BreakingReader>(std::move(inner), is_broken);
    };
    const auto server = start(options);
    is_broken = true;  // nothing of the experts is in memory yet
    id = begin_in_background(server->port());
    const TestJson failed = ended(server->port(), id);
    EXPECT_EQ(failed["status"], "failed");
    EXPECT_EQ(failed["error"]["code"], "drive_failed") << failed;
    is_broken = false;
    const TestJson next = ended(server->port(), begin_in_background(server->port()));
    EXPECT_EQ(next["status"], "completed") << next;
  }
  const auto store = std::move(*JobStore::open(folder.path()));
  const auto job = *store->job(id.substr(std::string("chatcmpl-").size()));
  ASSERT_TRUE(job);
  EXPECT_EQ(job->attempts, 3);
}

}  // namespace
}  // namespace sluice::server
