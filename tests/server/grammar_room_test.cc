// The room that grammars of requests have together: who waits for it, and who never would have it.
#include <gtest/gtest.h>

#include <thread>

#include "server/asked.h"
#include "server/folder.h"
#include "server/held_answer.h"
#include "server/host.h"
#include "server/job_runner.h"
#include "server/served.h"

namespace sluice::server {
namespace {

using std::chrono::milliseconds;

TestJson held_chat() {
  const TestJson schema = TestJson::parse(R"({"type": "object", "properties":
      {"kind": {"enum": ["brig", "sloop"]}}, "required": ["kind"],
      "additionalProperties": false})");
  const TestJson format = {{"type", "json_schema"},
                           {"json_schema", {{"name", "it"}, {"schema", schema}}}};
  return chat(
      "A ship?",
      {{"response_format", format}, {"reasoning_effort", "none"}, {"max_completion_tokens", 100}});
}

/// A model whose room for grammars has just one of held_chat().
class TheGrammarRoom : public ::testing::Test {
 protected:
  TheGrammarRoom() : host_(std::move(*Host::start(options_for_tests().host))) {
    model_ = host_->model();
    room_.emplace(ask()->generation.grammar.grammar->memory_bytes());
    model_.grammars = &*room_;
  }
  ApiResult<Asked> ask() const { return read_asked(kChat, held_chat(), model_, "1", 7); }

  std::unique_ptr<Host> host_;
  std::optional<GrammarRoom> room_;
  ServedModel model_;
};

TEST(AGrammar, HasLittleMemoryThatItDoesNotUse) {
  for (const std::size_t size : {9u, 1025u, 16'385u}) {  // a bit more than a power of two
    text::Grammar grammar;
    for (std::size_t i = 0; i < size; ++i) grammar.choice({});
    EXPECT_LE(grammar.memory_bytes(),
              sizeof(grammar) + (size + size / 8 + 9) * sizeof(text::GrammarNode));
  }
}

TEST_F(TheGrammarRoom, IsUsedByOneAfterAnother) {
  {
    const auto one = ask();
    ASSERT_TRUE(one) << one.error().message;
    const auto other = ask();
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().status, 503);
    EXPECT_EQ(other.error().code, kNoGrammarRoom);
  }
  EXPECT_TRUE(ask());
}

TEST_F(TheGrammarRoom, SaysOfWhatItWouldNeverHoldThatItIsTooLarge) {
  room_.emplace(100);
  const auto asked = ask();
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().status, 400);
  EXPECT_EQ(asked.error().param, "response_format");
  EXPECT_NE(asked.error().message.find("too large"), std::string::npos) << asked.error().message;
  EXPECT_NE(asked.error().message.find("100 B"), std::string::npos) << asked.error().message;
}

TEST_F(TheGrammarRoom, IsGivenBackBeforeAnybodyHearsOfTheEnd) {
  auto asked = ask();
  ASSERT_TRUE(asked);
  const auto task = std::make_shared<Task>("one", "client", std::move(asked->generation));
  asked->generation = {};
  EXPECT_FALSE(ask());
  ASSERT_TRUE(host_->worker().submit(task));
  while (true) {
    const auto event = task->next(milliseconds(100));
    if (!event) continue;
    ASSERT_NE(event->kind, TaskEvent::Kind::failed) << event->error->message;
    if (event->kind == TaskEvent::Kind::done) break;
  }
  EXPECT_TRUE(ask()) << "the task is still there";
}

TEST_F(TheGrammarRoom, IsWaitedForByJobs) {
  const Folder folder;
  const auto store = std::move(*JobStore::open(folder.path()));
  StoredJob job;
  job.id = "1";
  job.endpoint = kChat;
  job.body = held_chat().dump();
  ASSERT_TRUE(store->add_job(job));
  Parsing parsing(20'000);
  const auto wait_for = [&](const std::string& status) {
    for (int i = 0; i < 20'000 && (*store->job("1"))->status != status; ++i) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    return **store->job("1");
  };
  {
    const auto other = ask();
    ASSERT_TRUE(other);
    const auto runner = std::move(*JobRunner::start(*store, host_->worker(), model_, parsing));
    EXPECT_EQ(wait_for("running").status, "running");
    runner->stop();
    EXPECT_EQ((*store->job("1"))->status, "waiting") << (*store->job("1"))->result;
    EXPECT_EQ((*store->job("1"))->attempts, 0);
  }
  const auto runner = std::move(*JobRunner::start(*store, host_->worker(), model_, parsing));
  const StoredJob done = wait_for("done");
  EXPECT_EQ(done.status, "done");
  EXPECT_EQ(done.http_status, 200) << done.result;
}

}  // namespace
}  // namespace sluice::server
