#include "text/chat.h"

#include <array>
#include <string_view>
#include <utility>

#include "text/chat_k3.h"
#include "text/chat_message.h"

namespace sluice::text {
namespace {

bool has_all(const Tokenizer& tokenizer, std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    if (!tokenizer.special_id(name)) return false;
  }
  return true;
}

Result<std::vector<Segment>> render_k2(const ChatRequest& request) {
  const auto refuse = [](std::string_view field) {
    return fail(ErrorKind::usage, "{}: not supported by this model's chat format in Sluice", field);
  };
  if (!request.tools.empty()) return refuse("tools");
  if (!request.tool_choice.is_null() && request.tool_choice != "auto") return refuse("tool_choice");
  if (!request.response_format.is_null()) return refuse("response_format");
  SLUICE_ASSIGN(const std::vector<ChatMessage> messages, read_messages(request.messages));
  std::vector<Segment> segments;
  const auto open = [&](std::string_view marker, std::string_view name) {
    segments.push_back({std::string(marker), true});
    segments.push_back({std::string(name), false});
    segments.push_back({"<|im_middle|>", true});
  };
  for (const ChatMessage& message : messages) {
    const auto name = [&](std::string_view role) {
      return message.name.empty() ? role : message.name;
    };
    switch (message.role) {
      case ChatMessage::Role::system:
        open("<|im_system|>", name("system"));
        break;
      case ChatMessage::Role::user:
        open("<|im_user|>", name("user"));
        break;
      case ChatMessage::Role::assistant:
        open("<|im_assistant|>", name("assistant"));
        break;
      case ChatMessage::Role::tool:
        return refuse("messages: role tool");
    }
    if (!message.tools.is_null()) return refuse("messages: tools");
    if (!message.calls.empty()) return refuse("messages: tool_calls");
    for (const std::string& part : message.content) {
      if (!part.empty()) segments.push_back({part, false});
    }
    segments.push_back({"<|im_end|>", true});
  }
  if (request.generation_prompt) open("<|im_assistant|>", "assistant");
  return segments;
}

}  // namespace

Json messages_of(std::span<const ChatTurn> turns) {
  Json messages = Json::array();
  for (const ChatTurn& turn : turns) {
    Json message = {{"role", turn.role}, {"content", turn.content}};
    if (!turn.reasoning.empty()) message["reasoning_content"] = turn.reasoning;
    messages.push_back(std::move(message));
  }
  return messages;
}

Result<ChatFormat> ChatFormat::detect(const Tokenizer& tokenizer) {
  static constexpr std::array<std::string_view, 4> kK3 = {"<|open|>", "<|close|>", "<|sep|>",
                                                          "<|end_of_msg|>"};
  static constexpr std::array<std::string_view, 5> kK2 = {
      "<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|im_end|>"};
  if (has_all(tokenizer, kK3)) return ChatFormat(Kind::kimi_k3);
  if (has_all(tokenizer, kK2)) return ChatFormat(Kind::kimi_k2);
  return fail(
      ErrorKind::usage,
      "the model's special tokens belong to no chat format that Sluice knows (Kimi K3, Kimi "
      "K2); use it without chat");
}

Result<std::vector<Segment>> ChatFormat::render(const ChatRequest& request) const {
  return kind_ == Kind::kimi_k3 ? render_k3(request) : render_k2(request);
}

Result<std::vector<std::int32_t>> ChatFormat::encode(const Tokenizer& tokenizer,
                                                     const ChatRequest& request) const {
  SLUICE_ASSIGN(const std::vector<Segment> segments, render(request));
  return encode_segments(tokenizer, segments);
}

Result<std::vector<std::int32_t>> encode_segments(const Tokenizer& tokenizer,
                                                  std::span<const Segment> segments) {
  std::vector<std::int32_t> ids;
  for (const Segment& segment : segments) {
    const auto special =
        segment.control ? Tokenizer::Special::as_control : Tokenizer::Special::as_text;
    SLUICE_ASSIGN(const std::vector<std::int32_t> more, tokenizer.encode(segment.text, special));
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

}  // namespace sluice::text
