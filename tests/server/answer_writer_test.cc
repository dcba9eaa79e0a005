// Promise: after however many tokens an answer is cut, its stream, put together as a client does
// it, is the whole answer, in OpenAI's shape and in Anthropic's.
#include "server/answer_writer.h"

#include <gtest/gtest.h>

#include "server/answers.h"
#include "server/anthropic.h"
#include "server/asked.h"
#include "server/client.h"
#include "server/openai_answer.h"

namespace sluice::server {
namespace {

/// A writer's stream and its whole object for the first `count` of the answer's tokens.
struct Written {
  std::vector<TestJson> events;
  TestJson whole;
};

Written write(AnswerWriter& writer, const AnswerForm& form, const Ids& ids, std::size_t count) {
  Generation generation;
  generation.prompts = {{1}};
  AnswerCollector collector(generation);
  AnswerMachine machine = *AnswerMachine::create(tokenizer(), form);
  std::string stream = writer.begin();
  const auto send = [&](const TaskEvent& event) {
    stream += writer.event(event);
    collector.add(event);
  };
  const auto flush = [&] {
    for (AnswerStep& step : machine.take()) {
      TaskEvent event = {TaskEvent::Kind::step};
      event.step = std::move(step);
      send(event);
    }
  };
  bool goes_on = true;
  for (std::size_t i = 0; goes_on && i < count; ++i) {
    goes_on = machine.push(ids[i]);
    flush();
  }
  TaskEvent end = {TaskEvent::Kind::choice_end};
  end.finish = machine.finish(goes_on && count < ids.size() ? engine::FinishReason::length
                              : goes_on                     ? engine::FinishReason::end_of_turn
                                                            : engine::FinishReason::stopped);
  end.stop_string = machine.stopped_by();
  flush();
  send(end);
  stream += writer.end({});
  Answered answered;
  answered.body = stream;
  return {answered.events(), TestJson::parse(to_line(writer.whole(collector.choices(), {})))};
}

ServedModel served() {
  ServedModel model;
  model.name = "nano";
  model.tokenizer = &tokenizer();
  model.format = *text::ChatFormat::detect(tokenizer());
  return model;
}

/// What a client of OpenAI's API puts together.
TestJson joined_chat(const std::vector<TestJson>& events) {
  std::string content, reasoning;
  TestJson calls = TestJson::array();
  TestJson finish;
  for (const TestJson& event : events) {
    const TestJson& choice = event["choices"][0];
    if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"];
    content += choice["delta"].value("content", "");
    reasoning += choice["delta"].value("reasoning_content", "");
    if (!choice["delta"].contains("tool_calls")) continue;
    for (TestJson call : choice["delta"]["tool_calls"]) {
      const auto index = call["index"].get<std::size_t>();
      call.erase("index");
      if (index == calls.size()) {
        calls.push_back(call);
      } else {
        std::string& arguments = calls[index]["function"]["arguments"].get_ref<std::string&>();
        arguments += call["function"]["arguments"].get<std::string>();
      }
    }
  }
  return {{"content", content}, {"reasoning", reasoning}, {"calls", calls}, {"finish", finish}};
}

TestJson whole_chat(const TestJson& answer) {
  const TestJson& choice = answer["choices"][0];
  const TestJson& message = choice["message"];
  const bool has_text = message["content"].is_string();
  return {{"content", has_text ? message["content"].get<std::string>() : ""},
          {"reasoning", message.value("reasoning_content", "")},
          {"calls", message.value("tool_calls", TestJson::array())},
          {"finish", choice["finish_reason"]}};
}

/// What a client of Anthropic's API puts together.
TestJson joined_messages(const std::vector<TestJson>& events) {
  TestJson blocks = TestJson::array();
  TestJson stop;
  std::string input;
  for (const TestJson& event : events) {
    const std::string type = event["type"];
    if (type == "content_block_start") {
      EXPECT_EQ(event["index"], blocks.size());
      blocks.push_back(event["content_block"]);
      input.clear();
    } else if (type == "content_block_delta") {
      const TestJson& delta = event["delta"];
      if (delta["type"] == "input_json_delta") {
        input += delta["partial_json"].get<std::string>();
      } else if (delta["type"] == "text_delta" || delta["type"] == "thinking_delta") {
        const std::string field = delta["type"] == "text_delta" ? "text" : "thinking";
        blocks.back()[field].get_ref<std::string&>() += delta[field].get<std::string>();
      }
    } else if (type == "content_block_stop" && !input.empty()) {
      const TestJson parsed = TestJson::parse(input, nullptr, false);
      blocks.back()["input"] = parsed.is_discarded() ? TestJson{{"raw", input}} : parsed;
    } else if (type == "message_delta") {
      stop = event["delta"];
    }
  }
  return {{"content", blocks}, {"stop", stop["stop_reason"]}, {"by", stop["stop_sequence"]}};
}

TEST(AnswerWriters, StreamWhatTheWholeHasWhereverItIsCut) {
  const ServedModel model = served();
  for (const auto& stops : {std::vector<std::string>{}, {"END"}, {"ZZ", "D of", "e END"}}) {
    const AnswerForm form = form_with(stops);
    const Ids ids = encode(kAnswer);
    for (std::size_t count = 0; count <= ids.size(); ++count) {
      OpenAiRequest chat;
      chat.generation.prompts = {{1}};
      const auto openai = chat_writer(chat, model, "chatcmpl-1", 0);
      const Written in_openai = write(*openai, form, ids, count);
      EXPECT_EQ(joined_chat(in_openai.events), whole_chat(in_openai.whole)) << count;

      MessagesRequest messages;
      messages.generation.prompts = {{1}};
      const auto anthropic = messages_writer(messages, model, "msg_1");
      const Written in_anthropic = write(*anthropic, form, ids, count);
      const TestJson joined = joined_messages(in_anthropic.events);
      EXPECT_EQ(joined["stop"], in_anthropic.whole["stop_reason"]) << count;
      EXPECT_EQ(joined["by"], in_anthropic.whole["stop_sequence"]) << count;
      EXPECT_EQ(joined["content"], in_anthropic.whole["content"]) << count;
    }
  }
}

}  // namespace
}  // namespace sluice::server
