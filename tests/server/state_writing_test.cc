// What comes to the disk when, and how much of it.
#include <gtest/gtest.h>

#include "server/conversations.h"
#include "server/folder.h"
#include "server/saved_states.h"

namespace sluice::server {
namespace {

namespace fs = std::filesystem;

class WritingStates : public ::testing::Test {
 protected:
  void SetUp() override {
    engine::EngineOptions engine = saving_options(256);
    engine.chunk = 8;
    engine.identify = true;
    auto opened = engine::Engine::open(engine);
    ASSERT_TRUE(opened) << opened.error().message;
    engine_ = std::move(*opened);
    options_.memory = 16 * kMiB;
    options_.folder = folder_.path() / "states";
    options_.disk = 64 * kMiB;
    options_.vocabulary = engine_->shape().vocabulary;
    options_.part_interval = std::chrono::milliseconds(0);
  }

  std::unique_ptr<Conversations> open() {
    auto all = Conversations::open(*engine_, options_);
    EXPECT_TRUE(all) << all.error().message;
    return all ? std::move(*all) : nullptr;
  }

  /// As a request does; given up after `most` ids. Returns how many were known.
  std::size_t read(Conversations& all, const Ids& prompt, std::size_t most = 1000) {
    EXPECT_TRUE(all.recall(prompt));
    const std::size_t known = all.held().size();
    if (known == prompt.size()) return known;
    Cancellation cancellation;
    engine::FeedOptions options;
    options.cancellation = &cancellation;
    options.on_chunk = [&](std::size_t fed) {
      all.keep_part(prompt, known + fed);
      all.flush();
      if (known + fed >= most) cancellation.request();
    };
    const auto logits = engine_->feed(all.sequence(), std::span(prompt).subspan(known), options);
    all.held() = prompt;
    all.held().resize(all.sequence().length());
    if (logits) all.keep(*logits);
    all.flush();
    return known;
  }

  Folder folder_;
  ConversationOptions options_;
  std::unique_ptr<engine::Engine> engine_;
};

TEST_F(WritingStates, APartOfAPromptGoesOnAfterARestart) {
  const Ids prompt = numbered(60, 100);
  for (const std::uint64_t memory : {16 * kMiB, std::uint64_t{0}}) {
    options_.memory = memory;
    {
      const auto all = open();
      EXPECT_EQ(read(*all, prompt, 24), 0u);
      EXPECT_EQ(all->sequence().length(), 0u) << "given up";
      if (memory == 0) {
        EXPECT_EQ(all->disk_count(), 1u) << "the longest";
      }
    }
    const auto all = open();
    EXPECT_EQ(read(*all, prompt), 24u);
    EXPECT_EQ(read(*all, prompt), 60u);
    fs::remove_all(options_.folder);
  }
}

TEST_F(WritingStates, APromptThatIsAnEarlierAnswerIsNotTakenForOneWithLogits) {
  const Ids answered = numbered(20, 100);
  const auto all = open();
  EXPECT_EQ(read(*all, Ids(answered.begin(), answered.begin() + 12)), 0u);
  ASSERT_TRUE(engine_->feed(all->sequence(), std::span(answered).subspan(12), {}));
  all->held() = answered;
  all->keep({});
  all->flush();
  EXPECT_EQ(read(*all, numbered(20, 500)), 0u) << "as long, and with logits";
  EXPECT_EQ(read(*all, answered), 12u);
  EXPECT_EQ(read(*all, answered), 20u);
}

TEST_F(WritingStates, APromptOnDiskHasNoPartsThere) {
  options_.memory = 0;  // each part is written before the next one is read
  const auto all = open();
  read(*all, numbered(60, 100));
  EXPECT_EQ(all->disk_count(), 1u);
  read(*all, numbered(60, 200), 24);
  EXPECT_EQ(all->disk_count(), 2u);
  read(*all, numbered(60, 300));
  EXPECT_EQ(all->disk_count(), 3u) << "what is left of one that was given up stays";
}

TEST_F(WritingStates, WhatIsLargerThanAllMayBeIsSaidOnce) {
  options_.disk = 1000;
  testing::internal::CaptureStderr();
  {
    const auto all = open();
    for (const std::size_t length : {20, 30, 40}) read(*all, numbered(length, 100));
    EXPECT_EQ(all->disk_count(), 0u);
  }
  const std::string said = testing::internal::GetCapturedStderr();
  const std::size_t at = said.find("than --state-disk allows for all together, 1000 B; give");
  EXPECT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find("--state-disk", at + 20), std::string::npos) << said;
}

TEST_F(WritingStates, WhatIsOwedIsPaidBeforeMoreIsWritten) {
  options_.write_rate = 1;  // what one state owes takes weeks
  options_.part_interval = std::chrono::hours(1);
  {
    const auto all = open();
    EXPECT_EQ(all->disk_written_bytes(), 0u);
    read(*all, numbered(20, 100));
    const std::uint64_t one = all->disk_written_bytes();
    EXPECT_EQ(one, all->disk_bytes());
    for (const std::int32_t first : {200, 300, 400, 500, 600}) read(*all, numbered(20, first));
    EXPECT_FALSE(all->checkpoint(1, 10, {}));
    all->flush();
    EXPECT_EQ(all->disk_written_bytes(), one);
  }
  const auto all = open();
  EXPECT_EQ(all->disk_count(), 5u) << "when the server ends, what waits is written: the newest";
  EXPECT_EQ(read(*all, numbered(20, 200)), 0u);
  EXPECT_EQ(read(*all, numbered(20, 600)), 20u);
}

TEST_F(WritingStates, WhatWaitsIsWrittenOnceItIsPaidFor) {
  options_.write_rate = 10 * kMiB;
  options_.part_interval = std::chrono::hours(1);
  const auto all = open();
  for (const std::int32_t first : {100, 200, 300}) read(*all, numbered(20, first));
  while (all->disk_count() < 3) continue;  // nobody asks for anything more
}

TEST_F(WritingStates, WhatHasNoRoomToWaitIsWrittenAtTheNextChance) {
  options_.write_rate = 1;
  options_.memory = 0;
  options_.part_interval = std::chrono::hours(1);
  const auto all = open();
  for (const std::int32_t first : {100, 200, 300}) read(*all, numbered(20, first));
  EXPECT_EQ(all->disk_count(), 1u) << "there is none yet";
  EXPECT_EQ(all->disk_written_bytes(), all->disk_bytes());
}

TEST_F(WritingStates, PartsArePassedOverWhileSomethingIsOwed) {
  options_.write_rate = 1;
  const auto all = open();
  read(*all, numbered(60, 100), 24);
  all->flush();
  EXPECT_EQ(all->disk_count(), 1u) << "the first";
  EXPECT_EQ(read(*all, numbered(60, 100), 32), 24u) << "the others are in memory";
}

}  // namespace
}  // namespace sluice::server
