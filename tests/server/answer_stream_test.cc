// Promise: a stream is the answer whatever is between its events and in it: heartbeats, several
// tokens at once, several calls, several choices that take turns.
#include <optional>
#include <set>

#include "server/written.h"

namespace sluice::server {
namespace {

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; ++count) ++at;
  return count;
}

TEST(AnswerStreams, HeartbeatsAreNoText) {
  for (const FormCase& each : all_forms()) {
    SCOPED_TRACE(each.name);
    const ServedModel model = served(*each.tokenizer);
    const Ids ids = each.ids();
    const auto stream = [&](AnswerWriter& writer, const AnswerForm& form, bool beats) {
      return write(writer, *each.tokenizer, form, ids, ids.size(), 1, beats);
    };
    const Written chat = stream(*openai_writer(model), each.form, false);
    const Written beating_chat = stream(*openai_writer(model), each.form, true);
    EXPECT_EQ(beating_chat.events, chat.events);
    EXPECT_EQ(joined_chat(beating_chat.events), whole_chat(chat.whole));
    EXPECT_EQ(beating_chat.whole, chat.whole);
    EXPECT_GT(count_of(beating_chat.stream, ": working\n\n"), 20u);

    AnswerForm plain;  // a text that is continued
    const Written text = stream(*text_writer(model), plain, false);
    const Written beating_text = stream(*text_writer(model), plain, true);
    EXPECT_EQ(beating_text.events, text.events);
    EXPECT_EQ(joined_text(beating_text.events), each.written);
    EXPECT_GT(count_of(beating_text.stream, ": working\n\n"), 20u);

    const Written messages = stream(*anthropic_writer(model), each.form, false);
    const Written beating = stream(*anthropic_writer(model), each.form, true);
    EXPECT_EQ(joined_messages(beating.events), joined_messages(messages.events));
    EXPECT_EQ(joined_messages(beating.events)["content"], messages.whole["content"]);
    const std::size_t pings = count_of(beating.stream, "event: ping\n");
    EXPECT_GT(pings, 20u);
    EXPECT_EQ(beating.events.size(), messages.events.size() + pings);
  }
}

/// Three calls, the second without arguments, as each format writes them.
std::vector<FormCase> three_calls() {
  std::vector<FormCase> all = all_forms();
  std::vector<FormCase> chosen;
  for (FormCase& each : all) {
    if (each.tokenizer == &tokenizer()) {
      each.written.insert(each.written.find("<|close|>tools"),
                          "<|open|>call tool=\"find\" index=\"3\"<|sep|>"
                          "<|open|>argument key=\"what\" type=\"string\"<|sep|>\U0001F642"
                          "<|close|>argument<|sep|><|close|>call<|sep|>");
    } else if (each.tokenizer == &channel_tokenizer()) {
      each.written +=
          "<|end|><|start|>assistant to=functions.find<|channel|>commentary json<|message|>"
          "{\"what\": \"\U0001F642\"}";
    } else {
      each.written.insert(each.written.find("<|tool_calls_section_end|>"),
                          "<|tool_call_begin|>functions.find:2<|tool_call_argument_begin|>"
                          "{\"what\": \"\U0001F642\"}<|tool_call_end|>");
    }
    chosen.push_back(std::move(each));
  }
  return chosen;
}

TEST(AnswerStreams, SeveralTokensAtOnceAreTheSameCalls) {
  for (const FormCase& each : three_calls()) {
    SCOPED_TRACE(each.name);
    const ServedModel model = served(*each.tokenizer);
    const Ids ids = each.ids();
    std::optional<TestJson> chat, messages;
    for (const std::size_t at_once : {std::size_t{1}, std::size_t{2}, std::size_t{3},
                                      std::size_t{7}, std::size_t{40}, ids.size()}) {
      const Written openai =
          write(*openai_writer(model), *each.tokenizer, each.form, ids, ids.size(), at_once);
      const TestJson joined = joined_chat(openai.events);
      EXPECT_EQ(joined, whole_chat(openai.whole));
      EXPECT_EQ(joined, chat.value_or(joined)) << at_once;
      chat = joined;
      const Written anthropic =
          write(*anthropic_writer(model), *each.tokenizer, each.form, ids, ids.size(), at_once);
      const TestJson blocks = joined_messages(anthropic.events);
      EXPECT_EQ(blocks["content"], anthropic.whole["content"]);
      EXPECT_EQ(blocks, messages.value_or(blocks)) << at_once;
      messages = blocks;
    }
    ASSERT_EQ((*chat)["calls"].size(), 3u);
    std::set<std::string> call_ids;
    for (const TestJson& call : (*chat)["calls"]) call_ids.insert(call["id"].get<std::string>());
    EXPECT_EQ(call_ids.size(), 3u);
    EXPECT_EQ((*chat)["calls"][1]["function"]["arguments"], "{}");
    EXPECT_EQ((*chat)["calls"][2]["function"]["name"], "find");
    EXPECT_EQ((*chat)["finish"], "tool_calls");
    EXPECT_EQ((*messages)["content"].size(), 5u);
  }
}

TEST(AnswerStreams, ChoicesThatTakeTurnsDoNotMix) {
  const FormCase calls = three_calls()[0];
  const std::vector<Ids> answers = {
      calls.ids(), calls.encode("No.<|close|>think<|sep|><|open|>response<|sep|>Gr\u00fc\u00dfe"),
      calls.encode(kAnswer)};
  const ServedModel model = served();
  const auto writer = openai_writer(model, answers.size());
  Writing writing(*writer, answers.size());
  std::vector<AnswerMachine> machines;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    machines.push_back(*AnswerMachine::create(tokenizer(), calls.form));
  }
  std::size_t most = 0;
  for (const Ids& ids : answers) most = std::max(most, ids.size());
  for (std::size_t at = 0; at <= most; ++at) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (at < answers[i].size()) machines[i].push(answers[i][at]);
      // Each at a pace of its own.
      if (at % (i + 1) == 0 && at <= answers[i].size()) writing.flush(machines[i], i);
      if (at == answers[i].size()) {
        writing.finish(machines[i], engine::FinishReason::end_of_turn, i);
      }
    }
  }
  const Written all = writing.written();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Written alone =
        write(*openai_writer(model), tokenizer(), calls.form, answers[i], answers[i].size());
    EXPECT_EQ(joined_chat(all.events, i), whole_chat(alone.whole)) << i;
    EXPECT_EQ(joined_chat(all.events, i), whole_chat(all.whole, i)) << i;
  }
}

TEST(AnswerStreams, EveryChunkHasTheIdOfItsStream) {
  for (const FormCase& each : three_calls()) {
    const ServedModel model = served(*each.tokenizer);
    const Ids ids = each.ids();
    const Written chat = write(*openai_writer(model), *each.tokenizer, each.form, ids, ids.size());
    const Written text = write(*text_writer(model), *each.tokenizer, {}, ids, ids.size());
    for (const auto& [written, id] : {std::pair{&chat, "chatcmpl-1"}, std::pair{&text, "cmpl-1"}}) {
      EXPECT_GT(written->events.size(), 10u);
      for (const TestJson& event : written->events) EXPECT_EQ(event["id"], id) << event;
      EXPECT_EQ(written->whole["id"], id);
    }
    const Written messages =
        write(*anthropic_writer(model), *each.tokenizer, each.form, ids, ids.size());
    EXPECT_EQ(messages.events[0]["message"]["id"], "msg_1");
    EXPECT_EQ(messages.whole["id"], "msg_1");
  }
}

}  // namespace
}  // namespace sluice::server
