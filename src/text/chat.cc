#include "text/chat.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "text/chat_jinja.h"
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

tl::unexpected<Error> refuse(std::string_view field) {
  return fail(ErrorKind::usage, "{}: not supported by this model's chat format in Sluice", field);
}

/// The messages of a request to a format that has no tools.
Result<std::vector<ChatMessage>> plain_messages(const ChatRequest& request) {
  if (!request.tools.empty()) return refuse("tools");
  if (!request.tool_choice.is_null() && request.tool_choice != "auto") return refuse("tool_choice");
  if (!request.response_format.is_null()) return refuse("response_format");
  SLUICE_ASSIGN(std::vector<ChatMessage> messages, read_messages(request.messages));
  for (const ChatMessage& message : messages) {
    if (message.role == ChatMessage::Role::tool) return refuse("messages: role tool");
    if (!message.tools.is_null()) return refuse("messages: tools");
    if (!message.calls.empty()) return refuse("messages: tool_calls");
  }
  return messages;
}

std::string_view name_of(ChatMessage::Role role) {
  switch (role) {
    case ChatMessage::Role::system:
      return "system";
    case ChatMessage::Role::user:
      return "user";
    case ChatMessage::Role::assistant:
      return "assistant";
    case ChatMessage::Role::tool:
      return "tool";
  }
  return "";
}

Result<std::vector<Segment>> render_k2(const ChatRequest& request) {
  SLUICE_ASSIGN(const std::vector<ChatMessage> messages, plain_messages(request));
  std::vector<Segment> segments;
  const auto open = [&](std::string_view role, std::string_view name) {
    segments.push_back({fmt::format("<|im_{}|>", role), true});
    segments.push_back({std::string(name), false});
    segments.push_back({"<|im_middle|>", true});
  };
  for (const ChatMessage& message : messages) {
    const std::string_view role = name_of(message.role);
    open(role, message.name.empty() ? role : message.name);
    for (const std::string& part : message.content) {
      if (!part.empty()) segments.push_back({part, false});
    }
    segments.push_back({"<|im_end|>", true});
  }
  if (request.generation_prompt) open("assistant", "assistant");
  return segments;
}

Result<std::vector<Segment>> render_chatml(const ChatRequest& request,
                                           const std::string& default_system) {
  SLUICE_ASSIGN(const std::vector<ChatMessage> messages, plain_messages(request));
  std::vector<Segment> segments;
  const auto add = [&](std::string_view role, std::string_view content) {
    segments.push_back({"<|im_start|>", true});
    segments.push_back(
        {fmt::format("{}\n{}", role, content), false});  // one text: ids depend on it
  };
  const auto end = [&] {
    segments.push_back({"<|im_end|>", true});
    segments.push_back({"\n", false});
  };
  const bool has_system = !messages.empty() && messages.front().role == ChatMessage::Role::system;
  if (request.begins && !has_system && !default_system.empty()) {
    add("system", default_system);
    end();
  }
  for (const ChatMessage& message : messages) {
    std::string content;
    for (const std::string& part : message.content) content += part;
    add(name_of(message.role), content);
    end();
  }
  if (request.generation_prompt) add("assistant", "");
  return segments;
}

/// The system message that a ChatML template writes for a conversation without one: literal text
/// between its markers.
std::string default_system_of(std::string_view chat_template) {
  for (const std::string_view begin : {"<|im_start|>system\n", "<|im_start|>system\\n"}) {
    const std::size_t at = chat_template.find(begin);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = chat_template.substr(at + begin.size());
    const std::string_view text = rest.substr(0, rest.find("<|im_end|>"));
    // Quotes and braces: the text goes on with an expression, and is none of its own.
    if (text.size() < rest.size() && text.find_first_of("'\"{}\\") == std::string_view::npos) {
      return std::string(text);
    }
  }
  return "";
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
  std::string problem;
  if (!tokenizer.chat_template().empty()) {
    auto chat = make_jinja_chat(tokenizer);
    if (chat) return ChatFormat(std::make_shared<const JinjaChat>(std::move(*chat)));
    problem = chat.error().message;
  }
  static constexpr std::array<std::string_view, 2> kChatMl = {"<|im_start|>", "<|im_end|>"};
  if (has_all(tokenizer, kChatMl)) {
    if (!problem.empty()) log_note("{}; conversations are written as plain ChatML", problem);
    return ChatFormat(Kind::chatml, default_system_of(tokenizer.chat_template()));
  }
  if (!problem.empty()) return fail(ErrorKind::usage, "{}; use it without chat", problem);
  return fail(
      ErrorKind::usage,
      "the model's special tokens belong to no chat format that Sluice knows (Kimi K3, Kimi "
      "K2, ChatML); use it without chat");
}

Result<std::vector<Segment>> ChatFormat::render(const ChatRequest& request) const {
  switch (kind_) {
    case Kind::kimi_k3:
      return render_k3(request);
    case Kind::kimi_k2:
      return render_k2(request);
    case Kind::chatml:
      return render_chatml(request, default_system_);
    case Kind::jinja:
      return render_jinja(*jinja_, request);
  }
  return render_k3(request);
}

Result<std::vector<std::int32_t>> ChatFormat::encode(const Tokenizer& tokenizer,
                                                     const ChatRequest& request) const {
  SLUICE_ASSIGN(const std::vector<Segment> segments, render(request));
  return encode_segments(tokenizer, segments, request.after == 0 && request.begins);
}

Result<std::vector<std::int32_t>> encode_segments(const Tokenizer& tokenizer,
                                                  std::span<const Segment> segments, bool begins) {
  std::vector<std::int32_t> ids;
  for (const Segment& segment : segments) {
    const auto special =
        segment.control ? Tokenizer::Special::as_control : Tokenizer::Special::as_text;
    SLUICE_ASSIGN(const std::vector<std::int32_t> more,
                  tokenizer.encode(segment.text, special, begins));
    begins = false;
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

}  // namespace sluice::text
