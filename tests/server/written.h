// Answers as the writers write them, and what clients put together of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/answer_writer.h"
#include "server/answers.h"
#include "server/anthropic.h"
#include "server/asked.h"
#include "server/client.h"
#include "server/openai_answer.h"

namespace sluice::server {

/// A writer's stream and its whole object.
struct Written {
  std::string stream;
  std::vector<TestJson> events;
  TestJson whole;
};

/// Feeds one writer from the machines of its choices.
class Writing {
 public:
  explicit Writing(AnswerWriter& writer, std::size_t choices = 1)
      : writer_(writer), collector_(generation_of(choices)) {
    stream_ = writer.begin();
  }

  /// The server shows that it lives wherever it may.
  void with_heartbeats() {
    beats_ = true;
    stream_ = writer_.heartbeat() + stream_ + writer_.heartbeat();
  }

  /// The steps that a machine has ready.
  void flush(AnswerMachine& machine, std::size_t choice = 0) {
    for (AnswerStep& step : machine.take()) {
      TaskEvent event = {TaskEvent::Kind::step, choice};
      event.step = std::move(step);
      send(event);
    }
  }
  void finish(AnswerMachine& machine, engine::FinishReason reason, std::size_t choice = 0) {
    TaskEvent end = {TaskEvent::Kind::choice_end, choice};
    end.finish = machine.finish(reason);
    end.stop_string = machine.stopped_by();
    flush(machine, choice);
    send(end);
  }
  Written written() {
    stream_ += writer_.end({});
    Answered answered;
    answered.body = stream_;
    const std::string line = writer_.whole_line(collector_.choices(), {});
    const TestJson whole = TestJson::parse(line);
    EXPECT_EQ(line, whole.dump());  // as short as can be, and in one line
    return {stream_, answered.events(), whole};
  }

 private:
  static Generation generation_of(std::size_t choices) {
    Generation generation;
    generation.prompts = {{1}};
    generation.choices = choices;
    return generation;
  }
  void send(const TaskEvent& event) {
    stream_ += writer_.event(event);
    if (beats_) stream_ += writer_.heartbeat();
    collector_.add(event);
  }

  AnswerWriter& writer_;
  AnswerCollector collector_;
  std::string stream_;
  bool beats_ = false;
};

/// The first `count` of an answer's tokens, of which `at_once` come between two looks at the
/// machine.
inline Written write(AnswerWriter& writer, const text::Tokenizer& words, const AnswerForm& form,
                     const Ids& ids, std::size_t count, std::size_t at_once = 1,
                     bool heartbeats = false) {
  Writing writing(writer);
  if (heartbeats) writing.with_heartbeats();
  AnswerMachine machine = *AnswerMachine::create(words, form);
  bool goes_on = true;
  for (std::size_t i = 0; goes_on && i < count; ++i) {
    goes_on = machine.push(ids[i]);
    if ((i + 1) % at_once == 0) writing.flush(machine);
  }
  writing.flush(machine);
  writing.finish(machine, goes_on && count < ids.size() ? engine::FinishReason::length
                          : goes_on                     ? engine::FinishReason::end_of_turn
                                                        : engine::FinishReason::stopped);
  return writing.written();
}

/// As much of a model as the writers ask for.
inline ServedModel served(const text::Tokenizer& words = tokenizer()) {
  ServedModel model;
  model.name = "nano";
  model.tokenizer = &words;
  return model;
}

inline std::unique_ptr<AnswerWriter> openai_writer(const ServedModel& model,
                                                   std::size_t choices = 1) {
  OpenAiRequest request;
  request.generation.prompts = {{1}};
  request.generation.choices = choices;
  return chat_writer(request, model, "chatcmpl-1", 0);
}

inline std::unique_ptr<AnswerWriter> text_writer(const ServedModel& model) {
  OpenAiRequest request;
  request.generation.prompts = {{1}};
  return completion_writer(request, model, "cmpl-1", 0);
}

inline std::unique_ptr<AnswerWriter> anthropic_writer(const ServedModel& model) {
  MessagesRequest request;
  request.generation.prompts = {{1}};
  return messages_writer(request, model, "msg_1");
}

/// The text of a completion's stream.
inline std::string joined_text(const std::vector<TestJson>& events) {
  std::string text;
  for (const TestJson& event : events) text += event["choices"][0]["text"].get<std::string>();
  return text;
}

/// What a client of OpenAI's API puts together.
inline TestJson joined_chat(const std::vector<TestJson>& events, std::size_t chosen = 0) {
  std::string content, reasoning;
  TestJson calls = TestJson::array();
  TestJson finish;
  for (const TestJson& event : events) {
    const TestJson& choice = event["choices"][0];
    if (choice["index"] != chosen) continue;
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

inline TestJson whole_chat(const TestJson& answer, std::size_t chosen = 0) {
  const TestJson& choice = answer["choices"][chosen];
  const TestJson& message = choice["message"];
  const bool has_text = message["content"].is_string();
  return {{"content", has_text ? message["content"].get<std::string>() : ""},
          {"reasoning", message.value("reasoning_content", "")},
          {"calls", message.value("tool_calls", TestJson::array())},
          {"finish", choice["finish_reason"]}};
}

/// What a client of Anthropic's API puts together.
inline TestJson joined_messages(const std::vector<TestJson>& events) {
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

}  // namespace sluice::server
