// Promise: wherever a stream of tokens is cut, and into whatever tokens the same text is cut, the
// text, the reasoning, the calls and the stops are the same.
#include "server/answer_machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "server/answer_writer.h"
#include "server/answers.h"

namespace sluice::server {
namespace {

using text::Tokenizer;

/// What a client has at the end, and what it saw step by step.
struct Seen {
  WholeChoice whole;
  std::string reasoning, text, calls;  // the steps joined, in their order
  Finish finish = Finish::stop;
};

Seen read(const Ids& ids, const AnswerForm& form, bool cut, const Tokenizer& words = tokenizer()) {
  AnswerMachine machine = *AnswerMachine::create(words, form);
  Seen seen;
  const auto take = [&] {
    for (const AnswerStep& step : machine.take()) {
      seen.whole.add(step);
      if (step.kind == AnswerStep::Kind::reasoning) seen.reasoning += step.text;
      if (step.kind == AnswerStep::Kind::text) seen.text += step.text;
      if (step.kind == AnswerStep::Kind::call_begin) seen.calls += step.call_id + step.text;
      if (step.kind == AnswerStep::Kind::call_arguments) seen.calls += step.text;
      if (step.kind == AnswerStep::Kind::call_end) seen.calls += ";";
    }
  };
  bool over = false;
  for (const std::int32_t id : ids) {
    over = !machine.push(id);
    take();
    if (over) break;
  }
  seen.finish = machine.finish(over  ? engine::FinishReason::stopped
                               : cut ? engine::FinishReason::length
                                     : engine::FinishReason::end_of_turn);
  take();
  return seen;
}

TEST(AnswerMachine, ReadsReasoningTextAndCalls) {
  for (const FormCase& each : all_forms()) {
    SCOPED_TRACE(each.name);
    const Seen seen = read(each.ids(), each.form, false, *each.tokenizer);
    EXPECT_EQ(seen.reasoning, "First, w\u00e4gen \U0001F642.");
    EXPECT_EQ(seen.text, "Gr\u00fc\u00dfe END of all");
    EXPECT_EQ(seen.calls,
              "call_0get{\"city\": \"M\u00fcnchen \\\"x\\\"\", \"days\": 3};call_1put{};");
    EXPECT_EQ(seen.finish, Finish::tool_calls);
    ASSERT_EQ(seen.whole.blocks.size(), 4u);
    EXPECT_EQ(seen.whole.blocks[3].name, "put");
  }
}

/// The answer's ids, cut at one place more; nothing where that would cut a marker or a character.
std::optional<Ids> cut_at(const FormCase& each, std::size_t at) {
  Ids ids;
  for (const std::string& part : {each.written.substr(0, at), each.written.substr(at)}) {
    const auto more = each.tokenizer->encode(part, Tokenizer::Special::as_control);
    if (!more) return std::nullopt;
    ids.insert(ids.end(), more->begin(), more->end());
  }
  const auto markers =
      std::ranges::count_if(ids, [&](std::int32_t id) { return each.tokenizer->is_special(id); });
  if (markers != std::ranges::count(each.written, '<')) return std::nullopt;
  return ids;
}

TEST(AnswerMachine, EverySplitPointOfTheTextGivesTheSame) {
  for (const auto& stops : {std::vector<std::string>{}, {"END"}, {"ZZ", "D of", "e END"}}) {
    for (const FormCase& each : all_forms(stops)) {
      SCOPED_TRACE(each.name);
      const Seen expected = read(each.ids(), each.form, false, *each.tokenizer);
      int splits = 0;
      for (std::size_t at = 1; at < each.written.size(); ++at) {
        const auto ids = cut_at(each, at);
        if (!ids) continue;
        ++splits;
        const Seen seen = read(*ids, each.form, false, *each.tokenizer);
        EXPECT_EQ(seen.reasoning, expected.reasoning) << at;
        EXPECT_EQ(seen.text, expected.text) << at;
        EXPECT_EQ(seen.calls, expected.calls) << at;
        EXPECT_EQ(seen.finish, expected.finish) << at;
      }
      EXPECT_GT(splits, each.tokenizer == &tokenizer() ? 200 : 90);
    }
  }
}

TEST(AnswerMachine, EveryEndOfTheTokensIsABeginningOfTheWhole) {
  const auto begins = [](std::string whole, std::string part) {
    const std::string broken = "\uFFFD";  // of a character that the cut left unfinished
    if (part.ends_with(broken)) part.resize(part.size() - broken.size());
    return whole.starts_with(part);
  };
  for (const FormCase& each : all_forms()) {
    SCOPED_TRACE(each.name);
    const Ids ids = each.ids();
    const Seen all = read(ids, each.form, false, *each.tokenizer);
    for (std::size_t count = 0; count <= ids.size(); ++count) {
      const Seen seen = read({ids.begin(), ids.begin() + static_cast<long>(count)}, each.form, true,
                             *each.tokenizer);
      EXPECT_TRUE(begins(all.reasoning, seen.reasoning)) << count;
      EXPECT_TRUE(begins(all.text, seen.text)) << count;
      if (count < ids.size()) {
        EXPECT_EQ(seen.finish, Finish::length) << count;
      }
      // What was seen step by step is what the whole has.
      EXPECT_EQ(seen.text, seen.whole.joined(AnswerBlock::Kind::text));
      EXPECT_EQ(seen.reasoning, seen.whole.joined(AnswerBlock::Kind::reasoning));
    }
  }
}

TEST(AnswerMachine, StopsBeforeAStopStringHoweverItIsCut) {
  const std::string text = "one two three";
  for (std::size_t from = 1; from < text.size(); ++from) {
    for (std::size_t to = from; to <= text.size(); ++to) {
      AnswerForm form;
      form.stops = {text.substr(from, to - from)};
      if (form.stops[0].empty()) continue;
      Ids ids;
      for (const char c : text) ids.push_back(encode(std::string(1, c))[0]);
      const Seen seen = read(ids, form, false);
      EXPECT_EQ(seen.text, text.substr(0, text.find(form.stops[0])));
      EXPECT_EQ(seen.finish, Finish::stop);
    }
  }
}

TEST(AnswerMachine, WhatMightHaveBeenAStopStringIsShownWhenTheFormatEndsTheAnswer) {
  const struct {
    const Tokenizer& words;
    text::ChatFormat format;
    std::string begin, end;
  } cases[] = {
      {tokenizer(), *text::ChatFormat::detect(tokenizer()), "<|open|>response<|sep|>",
       "<|open|>message role=\"user\"<|sep|>"},
      {channel_tokenizer(), text::ChatFormat(text::ChatFormat::Kind::harmony),
       "<|channel|>final<|message|>", "<|start|>user<|message|>"},
      {other_tokenizer(), text::ChatFormat(text::ChatFormat::Kind::chatml), "", "<|im_end|>"},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.end);
    AnswerForm form = form_with({"END"});
    form.chat = each.format;
    form.thinking = false;
    const auto ids =
        *each.words.encode(each.begin + "The EN" + each.end, Tokenizer::Special::as_control);
    AnswerMachine machine = *AnswerMachine::create(each.words, form);
    WholeChoice whole;
    bool over = false;
    for (const std::int32_t id : ids) {
      over = !machine.push(id, text::TokenLogProbability{id, -1.0f});
      if (over) break;
    }
    EXPECT_TRUE(over);
    EXPECT_EQ(machine.finish(engine::FinishReason::stopped), Finish::stop);
    for (const AnswerStep& step : machine.take()) whole.add(step);
    EXPECT_EQ(whole.joined(AnswerBlock::Kind::text), "The EN");
    std::string tokens;
    for (const auto& token : whole.log_probabilities) tokens += each.words.bytes_of(token.id);
    EXPECT_EQ(tokens, "The EN");
  }
}

TEST(AnswerMachine, StopStringsAreForTheTextOnly) {
  const Seen seen = read(encode(kAnswer), form_with({"w\u00e4gen", "M\u00fcnchen"}), false);
  EXPECT_EQ(seen.reasoning, "First, w\u00e4gen \U0001F642.");
  EXPECT_EQ(seen.finish, Finish::tool_calls);
}

TEST(AnswerMachine, EndsWithTheFirstCallIfOnlyOneIsWanted) {
  AnswerForm form = form_with();
  form.one_call = true;
  const Seen seen = read(encode(kAnswer), form, false);
  EXPECT_TRUE(seen.calls.starts_with("call_0get"));
  EXPECT_EQ(seen.calls.find("call_1"), std::string::npos);
  EXPECT_EQ(seen.finish, Finish::tool_calls);
}

TEST(AnswerMachine, ACallThatNobodyOfferedIsText) {
  AnswerForm form = form_with();
  form.tools = false;
  const Seen seen = read(encode(kAnswer), form, false);
  EXPECT_EQ(seen.calls, "");
  EXPECT_NE(seen.text.find("get {\"city\""), std::string::npos);
  EXPECT_EQ(seen.finish, Finish::stop);
}

TEST(AnswerMachine, LogProbabilitiesBelongToTheTokensOfTheText) {
  for (const std::string stop : {"", "END"}) {
    const Ids ids = encode(kAnswer);
    AnswerMachine machine = *AnswerMachine::create(
        tokenizer(), form_with(stop.empty() ? std::vector<std::string>{} : std::vector{stop}));
    WholeChoice whole;
    for (const std::int32_t id : ids) {
      const bool goes_on = machine.push(id, text::TokenLogProbability{id, -1.0f});
      for (const AnswerStep& step : machine.take()) whole.add(step);
      if (!goes_on) break;
    }
    machine.finish(engine::FinishReason::end_of_turn);
    for (const AnswerStep& step : machine.take()) whole.add(step);
    Ids told;
    for (const auto& each : whole.log_probabilities) told.push_back(each.id);
    const std::string text = whole.joined(AnswerBlock::Kind::text);
    EXPECT_TRUE(tokenizer().decode(told).starts_with(text)) << tokenizer().decode(told);
    EXPECT_LE(tokenizer().decode(told).size(), text.size() + 4);
  }
}

}  // namespace
}  // namespace sluice::server
