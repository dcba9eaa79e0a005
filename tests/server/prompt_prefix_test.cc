// Prompts of models that want to see a token before every text, and what is told of prompts.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "server/host.h"
#include "server/openai_request.h"
#include "server/served.h"
#include "server/written.h"
#include "text/tokenizer_files.h"

namespace sluice::server {
namespace {

using std::chrono::milliseconds;

const text::Tokenizer& prefixing() {
  static const text::Tokenizer* const one =
      new text::Tokenizer(std::move(*text::parse_tokenizer("llama3")));
  return *one;
}

ApiResult<OpenAiRequest> read_completion(const TestJson& prompt) {
  ServedModel model = served(prefixing());
  model.vocabulary = prefixing().vocabulary();
  model.context = 64;
  return read_completion_request({{"model", "nano"}, {"prompt", prompt}, {"echo", true}}, model, 1);
}

TEST(APromptOfText, BeginsAsTheModelWantsIt) {
  const Ids text = *prefixing().encode_prompt("the sea");
  ASSERT_NE(text, *prefixing().encode("the sea", text::Tokenizer::Special::as_text));
  const auto request = read_completion("the sea");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->generation.prompts, std::vector<Ids>{text});
  EXPECT_EQ(request->echo, std::vector<std::string>{"the sea"});
}

TEST(APromptOfIds, StaysAsItIs) {
  const TestJson ids = {5, 6};
  const auto request = read_completion(TestJson::array({ids, "the sea"}));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->generation.prompts[0], (Ids{5, 6}));
  EXPECT_EQ(request->generation.prompts[1], *prefixing().encode_prompt("the sea"));
  EXPECT_EQ(request->generation.prefixes, (std::vector<std::size_t>{0, 1}));
}

TEST(APromptOfNoText, IsRefusedThoughSomethingComesBeforeIt) {
  for (const TestJson& prompt : {TestJson(""), TestJson::array({"x", ""})}) {
    const auto request = read_completion(prompt);
    ASSERT_FALSE(request) << prompt;
    EXPECT_EQ(request.error().param, "prompt");
  }
}

/// Of a request for what the model holds of a prompt: step by step, the ids that are told of.
std::vector<Ids> told_of(Worker& worker, Generation plan) {
  plan.log_probabilities = 0;
  plan.prompt_log_probabilities = true;
  plan.sampling.temperature = 0;
  const auto task = std::make_shared<Task>("told", "client", std::move(plan));
  EXPECT_TRUE(worker.submit(task));
  std::vector<Ids> told;
  while (true) {
    const auto event = task->next(milliseconds(100));
    if (!event) continue;
    if (event->kind == TaskEvent::Kind::failed) ADD_FAILURE() << event->error->message;
    if (event->kind == TaskEvent::Kind::done || event->kind == TaskEvent::Kind::failed) return told;
    if (event->step.log_probabilities.empty()) continue;
    Ids& ids = told.emplace_back();
    for (const auto& token : event->step.log_probabilities) ids.push_back(token.id);
  }
}

TEST(WhatIsToldOfAPrompt, IsOfItsTextAloneAndComesInParts) {
  const auto host = std::move(*Host::start(options_for_tests().host));
  Ids prompt(150);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = 300 + static_cast<int>(i * i % 1000);
  Generation plan;
  plan.prompts = {prompt, prompt};
  plan.prefixes = {2, 0};
  plan.choices = 2;
  Ids expected;
  for (const std::ptrdiff_t skipped : {2, 2, 0, 0}) {
    expected.insert(expected.end(), prompt.begin() + skipped, prompt.end());
  }
  Ids joined;
  for (const Ids& ids : told_of(host->worker(), plan)) {
    EXPECT_LE(ids.size(), 64u);
    joined.insert(joined.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(joined, expected);
}

/// Where the tokens of an answer begin, streamed and whole.
std::pair<TestJson, TestJson> offsets_of(const Ids& ids) {
  const ServedModel model = served();
  OpenAiRequest request;
  request.generation.prompts = {{1}};
  request.generation.log_probabilities = 0;
  const auto writer = completion_writer(request, model, "cmpl-1", 0);
  AnswerCollector collector(request.generation);
  Answered stream;
  for (const std::int32_t id : ids) {
    TaskEvent event = {TaskEvent::Kind::step};
    event.step.log_probabilities = {{id, -1.0F}};
    stream.body += writer->event(event);
    collector.add(event);
  }
  TestJson streamed = TestJson::array();
  for (const TestJson& event : stream.events()) {
    streamed.push_back(event["choices"][0]["logprobs"]["text_offset"][0]);
  }
  const TestJson whole = TestJson::parse(writer->whole_line(collector.choices(), {}));
  return {streamed, whole["choices"][0]["logprobs"]["text_offset"]};
}

TEST(PlacesOfTokens, AreCountedInCharacters) {
  const std::string text = "w\u00e4gen \U0001F642 sea";  // 11 characters
  const Ids ids = encode(text);
  const auto [streamed, whole] = offsets_of(ids);
  EXPECT_EQ(streamed, whole);
  ASSERT_EQ(whole.size(), ids.size());
  EXPECT_EQ(whole[0], 0);
  EXPECT_EQ(whole.back(), 11 - tokenizer().bytes_of(ids.back()).size());
  EXPECT_TRUE(std::is_sorted(whole.begin(), whole.end()));
}

}  // namespace
}  // namespace sluice::server
