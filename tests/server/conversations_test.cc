// Conversations on disk: they go on after a restart with the same bits, and what is damaged or
// foreign is refused.
#include "server/conversations.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <string>

#include "base/log.h"
#include "server/folder.h"
#include "server/saved_states.h"

namespace sluice::server {
namespace {

namespace fs = std::filesystem;

class OnDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    engine::EngineOptions options = saving_options(512);
    options.identify = true;
    auto opened = engine::Engine::open(options);
    ASSERT_TRUE(opened) << opened.error().message;
    engine_ = std::move(*opened);
  }

  ConversationOptions options() const {
    return {16 * kMiB, folder_.path() / "states", 64 * kMiB, engine_->shape().vocabulary, 1};
  }

  std::unique_ptr<Conversations> open(const ConversationOptions& options) {
    auto all = Conversations::open(*engine_, options);
    EXPECT_TRUE(all) << all.error().message;
    return all ? std::move(*all) : nullptr;
  }
  std::unique_ptr<Conversations> open() { return open(options()); }

  /// As a request does: what is known is not computed. Returns the logits of the last position.
  std::vector<float> read(Conversations& all, const std::vector<std::int32_t>& prompt) {
    auto logits = all.recall(prompt);
    EXPECT_TRUE(logits);
    known_ = all.held().size();
    if (known_ < prompt.size()) {
      logits = engine_->feed(all.sequence(), std::span(prompt).subspan(known_));
      EXPECT_TRUE(logits);
      all.held() = prompt;
      all.keep(*logits);
      all.flush();
    }
    return {logits->begin(), logits->end()};
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& each : fs::directory_iterator(folder_.path() / "states")) {
      all.push_back(each.path());
    }
    return all;
  }

  Folder folder_;
  std::unique_ptr<engine::Engine> engine_;
  std::size_t known_ = 0;
};

TEST_F(OnDisk, AConversationGoesOnAfterARestartWithTheSameBits) {
  const std::vector<std::int32_t> before = numbered(200, 100);
  std::vector<std::int32_t> after = before;
  for (const std::int32_t id : {7, 8, 9}) after.push_back(id);
  std::vector<float> of_before;
  {
    const auto all = open();
    of_before = read(*all, before);
  }
  std::vector<float> fresh;
  {
    ConversationOptions nothing = options();
    nothing.folder.clear();
    const auto all = open(nothing);
    fresh = read(*all, after);
    EXPECT_EQ(known_, 0u);
  }
  const auto all = open();
  EXPECT_EQ(read(*all, after), fresh);
  EXPECT_EQ(known_, 200u) << "no prefill of the old part";
  EXPECT_EQ(read(*all, before), of_before) << "with the logits, the whole prompt is known";
  EXPECT_EQ(known_, 200u);
  EXPECT_EQ(read(*all, numbered(200, 101)).size(), fresh.size());
  EXPECT_EQ(known_, 0u) << "others are others";
}

TEST_F(OnDisk, EveryDamagedFileIsRefusedAndRemoved) {
  set_log_level(LogLevel::off);
  const std::vector<std::int32_t> ids = numbered(40, 300);
  std::vector<float> expected;
  {
    const auto all = open();
    expected = read(*all, ids);
  }
  ASSERT_EQ(files().size(), 1u);
  const fs::path file = files()[0];
  std::ifstream in(file, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  const auto put = [&](const std::string& bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  };
  for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 23) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    for (const std::string& bytes : {flipped, whole.substr(0, at), whole + flipped.substr(at)}) {
      put(bytes);
      ConversationOptions small = options();
      small.memory = 0;
      {
        const auto all = open(small);
        ASSERT_EQ(read(*all, ids), expected) << at;
        ASSERT_EQ(known_, 0u) << at;
      }
      ASSERT_EQ(files().size(), 1u) << "written anew";
      const auto again = open(small);
      ASSERT_EQ(read(*again, ids), expected);
      ASSERT_EQ(known_, ids.size());
    }
  }
  set_log_level(LogLevel::note);
}

TEST_F(OnDisk, StatesOfAnotherModelAreNotUsedAndStay) {
  const std::vector<std::int32_t> ids = numbered(20, 300);
  { read(*open(), ids); }
  ConversationOptions other = options();
  other.tokenizer_digest = 2;
  {
    const auto all = open(other);
    read(*all, ids);
    EXPECT_EQ(known_, 0u);
    EXPECT_EQ(all->disk_count(), 2u) << "they count";
  }
  const auto all = open();
  read(*all, ids);
  EXPECT_EQ(known_, ids.size());
}

TEST_F(OnDisk, TheOldestGoFirst) {
  ConversationOptions small = options();
  { read(*open(), numbered(30, 500)); }
  const std::uint64_t one = fs::file_size(files()[0]);
  small.disk = 3 * one + one / 2;
  small.memory = 0;
  {
    const auto all = open(small);
    for (const std::int32_t first : {600, 700}) read(*all, numbered(30, first));
    read(*all, numbered(30, 500));  // used again
    EXPECT_EQ(known_, 30u);
    read(*all, numbered(30, 800));
    EXPECT_LE(all->disk_bytes(), small.disk);
    EXPECT_EQ(all->disk_count(), 3u);
  }
  const auto all = open(small);
  read(*all, numbered(30, 600));
  EXPECT_EQ(known_, 0u) << "it was the oldest";
  read(*all, numbered(30, 500));
  EXPECT_EQ(known_, 30u);
}

TEST_F(OnDisk, WhatACrashLeftUnfinishedIsRemoved) {
  { read(*open(), numbered(20, 300)); }
  std::ofstream(files()[0].string() + ".partial") << "half";
  const auto all = open();
  EXPECT_EQ(files().size(), 1u);
  read(*all, numbered(20, 300));
  EXPECT_EQ(known_, 20u);
}

TEST_F(OnDisk, WhatIsNoFileIsNeitherWaitedForNorUsed) {
  const std::vector<std::int32_t> ids = numbered(20, 300);
  { read(*open(), ids); }
  const fs::path file = files()[0];
  const fs::path folder = file.parent_path();
  ::mkfifo((folder / "pipe.state").c_str(), 0600);
  ::mkfifo((file.string() + ".partial").c_str(), 0600);
  fs::create_directory(folder / "folder.state");
  fs::create_symlink(file, folder / "link.state");
  ConversationOptions on_disk_only = options();
  on_disk_only.memory = 0;
  set_log_level(LogLevel::off);
  const auto all = open(on_disk_only);
  EXPECT_EQ(all->disk_count(), 1u);
  fs::remove(file);  // now behind the server's back
  ::mkfifo(file.c_str(), 0600);
  read(*all, ids);
  EXPECT_EQ(known_, 0u);
  ::mkfifo((file.string() + ".partial").c_str(), 0600);
  read(*all, numbered(30, 700));
  set_log_level(LogLevel::note);
  EXPECT_TRUE(fs::is_regular_file(file)) << "written anew";
  read(*all, ids);
  EXPECT_EQ(known_, ids.size());
}

TEST_F(OnDisk, AnAnswerIsFoundAgainByItsKey) {
  const std::vector<std::int32_t> prompt = numbered(20, 300);
  const std::vector<text::TokenLogProbability> trail = {{5, -0.5f, {{5, -0.5f}, {6, -1.5f}}},
                                                        {6, -0.25f, {}}};
  std::vector<float> expected;
  for (const bool has_room : {true, false}) {
    ConversationOptions sized = options();
    if (!has_room) sized.memory = 0;
    {
      const auto all = open(sized);
      read(*all, prompt);
      const std::int32_t five = 5;
      ASSERT_TRUE(engine_->feed(all->sequence(), {&five, 1}));
      all->held().push_back(5);
      all->held().push_back(6);
      all->checkpoint(1, prompt.size(), trail);  // the drive is idle
      all->checkpoint_end(2, prompt.size(), all->held(), {}, engine::FinishReason::end_of_turn);
    }
    const auto all = open(sized);
    auto known = all->recall_answer(1, prompt);
    ASSERT_TRUE(known);
    EXPECT_EQ(known->ids, (std::vector<std::int32_t>{5, 6}));
    EXPECT_FALSE(known->finish);
    ASSERT_EQ(known->trail.size(), 2u);
    EXPECT_EQ(known->trail[0].likeliest, trail[0].likeliest);
    EXPECT_EQ(known->trail[1].value, -0.25f);
    EXPECT_EQ(all->sequence().length(), prompt.size() + 1);
    EXPECT_EQ(all->held(), prompt);
    known = all->recall_answer(2, prompt);
    ASSERT_TRUE(known);
    EXPECT_EQ(known->finish, engine::FinishReason::end_of_turn);
    EXPECT_FALSE(all->recall_answer(1, numbered(20, 301))) << "another prompt";
    all->forget(1);
    EXPECT_FALSE(all->recall_answer(1, prompt));
    all->forget(2);
  }
}

}  // namespace
}  // namespace sluice::server
