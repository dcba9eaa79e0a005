// Answers of /v1/messages: content blocks, whole or as events.
#include <optional>
#include <utility>

#include "server/anthropic.h"

namespace sluice::server {
namespace {

const char* stop_reason(Finish finish, const std::string& stop_string) {
  switch (finish) {
    case Finish::stop:
      return stop_string.empty() ? "end_turn" : "stop_sequence";
    case Finish::length:
      return "max_tokens";
    case Finish::tool_calls:
      return "tool_use";
  }
  return "end_turn";
}

/// Arguments as the object that Anthropic's clients expect; what the model wrote otherwise stays
/// readable.
Json input_of(const std::string& arguments) {
  if (arguments.empty()) return Json::object();  // of a call that was cut
  auto input = text::parse_json(arguments, "arguments", ErrorKind::usage);
  if (input && input->is_object()) return std::move(*input);
  return {{"raw", arguments}};
}

class MessagesWriter final : public AnswerWriter {
 public:
  MessagesWriter(const MessagesRequest& request, const ServedModel& model, std::string id)
      : name_(model.name_of(request.generation.adapter)),
        id_(std::move(id)),
        prompt_(request.generation.prompts[0].size()) {}

  std::string begin() override {
    Json message = frame();
    message["stop_reason"] = nullptr;
    message["usage"] = {{"input_tokens", prompt_}, {"output_tokens", 0}};
    return server_sent({{"type", "message_start"}, {"message", std::move(message)}},
                       "message_start");
  }

  std::string event(const TaskEvent& event) override {
    using Kind = AnswerStep::Kind;
    if (event.kind == TaskEvent::Kind::choice_end) {
      finish_ = event.finish;
      stop_string_ = event.stop_string;
      return end_block();
    }
    const AnswerStep& step = event.step;
    switch (step.kind) {
      case Kind::reasoning:
        return to_block(AnswerBlock::Kind::reasoning,
                        {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}) +
               delta({{"type", "thinking_delta"}, {"thinking", step.text}});
      case Kind::text:
        if (step.text.empty()) return {};
        return to_block(AnswerBlock::Kind::text, {{"type", "text"}, {"text", ""}}) +
               delta({{"type", "text_delta"}, {"text", step.text}});
      case Kind::call_begin: {
        const std::string before = end_block();
        return before + to_block(AnswerBlock::Kind::call, {{"type", "tool_use"},
                                                           {"id", step.call_id},
                                                           {"name", step.text},
                                                           {"input", Json::object()}});
      }
      case Kind::call_arguments:
        return delta({{"type", "input_json_delta"}, {"partial_json", step.text}});
      case Kind::call_end:
        return end_block();
    }
    return {};
  }

  std::string end(const Usage& usage) override {
    Json delta = {{"stop_reason", stop_reason(finish_, stop_string_)},
                  {"stop_sequence", stop_string_.empty() ? Json() : Json(stop_string_)}};
    return server_sent(
               {{"type", "message_delta"}, {"delta", std::move(delta)}, {"usage", usage_of(usage)}},
               "message_delta") +
           server_sent({{"type", "message_stop"}}, "message_stop");
  }
  std::string failed(const ApiError& error) override {
    return "event: error\ndata: " + anthropic_error(error) + "\n\n";
  }
  std::string heartbeat() override { return server_sent({{"type", "ping"}}, "ping"); }
  std::string error(const ApiError& error) const override { return anthropic_error(error); }

  std::string whole_line(const std::vector<WholeChoice>& choices, const Usage& usage) override {
    const WholeChoice& choice = choices[0];
    Json message = frame();
    for (const AnswerBlock& block : choice.blocks) message["content"].push_back(content(block));
    message["stop_reason"] = stop_reason(choice.finish, choice.stop_string);
    if (!choice.stop_string.empty()) message["stop_sequence"] = choice.stop_string;
    message["usage"] = usage_of(usage);
    return to_line(message);
  }

 private:
  static Json usage_of(const Usage& usage) {
    return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", usage.cached_tokens},
            {"output_tokens", usage.completion_tokens}};
  }

  static Json content(const AnswerBlock& block) {
    switch (block.kind) {
      case AnswerBlock::Kind::reasoning:
        return {{"type", "thinking"}, {"thinking", block.text}, {"signature", ""}};
      case AnswerBlock::Kind::text:
        return {{"type", "text"}, {"text", block.text}};
      case AnswerBlock::Kind::call:
        break;
    }
    return {{"type", "tool_use"},
            {"id", block.call_id},
            {"name", block.name},
            {"input", input_of(block.text)}};
  }

  Json frame() const {
    return {{"id", id_},
            {"type", "message"},
            {"role", "assistant"},
            {"model", name_},
            {"content", Json::array()},
            {"stop_reason", nullptr},
            {"stop_sequence", nullptr}};
  }

  /// Steps of one kind go into one block.
  std::string to_block(AnswerBlock::Kind kind, Json block) {
    if (open_ == kind) return {};
    std::string text = end_block();
    open_ = kind;
    return text + server_sent({{"type", "content_block_start"},
                               {"index", blocks_},
                               {"content_block", std::move(block)}},
                              "content_block_start");
  }
  std::string delta(Json delta) const {
    return server_sent(
        {{"type", "content_block_delta"}, {"index", blocks_}, {"delta", std::move(delta)}},
        "content_block_delta");
  }
  std::string end_block() {
    if (!open_) return {};
    open_.reset();
    return server_sent({{"type", "content_block_stop"}, {"index", blocks_++}},
                       "content_block_stop");
  }

  const std::string name_;
  const std::string id_;
  const std::size_t prompt_;
  std::optional<AnswerBlock::Kind> open_;
  std::size_t blocks_ = 0;  // that are closed
  Finish finish_ = Finish::stop;
  std::string stop_string_;
};

}  // namespace

std::unique_ptr<AnswerWriter> messages_writer(const MessagesRequest& request,
                                              const ServedModel& model, std::string id) {
  return std::make_unique<MessagesWriter>(request, model, std::move(id));
}

}  // namespace sluice::server
