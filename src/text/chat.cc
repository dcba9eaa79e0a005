#include "text/chat.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "text/chat_jinja.h"
#include "text/chat_k3.h"
#include "text/chat_message.h"
#include "text/utf8.h"

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

// Of K2-Instruct-0905's template and those after it.
constexpr std::string_view kK2System = "You are Kimi, an AI assistant created by Moonshot AI.";

Result<std::vector<Segment>> render_k2(const ChatRequest& request, bool thinks) {
  SLUICE_ASSIGN(const std::vector<ChatMessage> messages, plain_messages(request));
  std::vector<Segment> segments;
  const auto open = [&](std::string_view role, std::string_view name) {
    segments.push_back({fmt::format("<|im_{}|>", role), true});
    segments.push_back({std::string(name), false});
    segments.push_back({"<|im_middle|>", true});
  };
  const bool has_system = !messages.empty() && messages.front().role == ChatMessage::Role::system;
  if (request.begins && !has_system) {
    open("system", "system");
    segments.emplace_back().text = kK2System;
    segments.push_back({"<|im_end|>", true});
  }
  for (const ChatMessage& message : messages) {
    const std::string_view role = name_of(message.role);
    open(role, message.name.empty() ? role : message.name);
    if (thinks && message.role == ChatMessage::Role::assistant) {
      segments.push_back({"<think>", true});  // thoughts of earlier turns are not kept
      segments.push_back({"</think>", true});
    }
    for (const std::string& part : message.content) {
      if (!part.empty()) segments.push_back({part, false});
    }
    segments.push_back({"<|im_end|>", true});
  }
  if (request.generation_prompt) open("assistant", "assistant");
  return segments;
}

Result<std::vector<Segment>> render_chatml(const ChatRequest& request) {
  SLUICE_ASSIGN(const std::vector<ChatMessage> messages, plain_messages(request));
  std::vector<Segment> segments;
  const auto add = [&](std::string_view role, std::string_view content) {
    segments.push_back({"<|im_start|>", true});
    segments.push_back(
        {fmt::format("{}\n{}", role, content), false});  // one text: ids depend on it
  };
  for (const ChatMessage& message : messages) {
    std::string content;
    for (const std::string& part : message.content) content += part;
    add(name_of(message.role), content);
    segments.push_back({"<|im_end|>", true});
    segments.push_back({"\n", false});
  }
  if (request.generation_prompt) add("assistant", "");
  return segments;
}

/// The built-in format. K2's template has no say in it but for one thing: that of K2-Thinking gives
/// each answer a place for what was thought before it.
ChatFormat k2_format(const Tokenizer& tokenizer) {
  static constexpr std::array<std::string_view, 2> kThink = {"<think>", "</think>"};
  const bool thinks = tokenizer.chat_template().find("<think></think>") != std::string::npos;
  return ChatFormat(ChatFormat::Kind::kimi_k2, thinks && has_all(tokenizer, kThink));
}

}  // namespace

std::tm local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  ::localtime_r(&now, &local);
  return local;
}

Json messages_of(std::span<const ChatTurn> turns) {
  Json messages = Json::array();
  for (const ChatTurn& turn : turns) {
    Json message = {{"role", turn.role}, {"content", turn.content}};
    if (!turn.reasoning.empty()) message["reasoning_content"] = turn.reasoning;
    messages.push_back(std::move(message));
  }
  return messages;
}

ChatFormat::ChatFormat(std::shared_ptr<const JinjaChat> chat)
    : kind_(chat->has_channels ? Kind::harmony : Kind::jinja), jinja_(std::move(chat)) {}

Result<ChatFormat> ChatFormat::detect(const Tokenizer& tokenizer) {
  static constexpr std::array<std::string_view, 4> kK3 = {"<|open|>", "<|close|>", "<|sep|>",
                                                          "<|end_of_msg|>"};
  static constexpr std::array<std::string_view, 5> kK2 = {
      "<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|im_end|>"};
  if (has_all(tokenizer, kK3)) return ChatFormat(Kind::kimi_k3);
  static constexpr std::array<std::string_view, 2> kChatMl = {"<|im_start|>", "<|im_end|>"};
  const bool is_k2 = has_all(tokenizer, kK2);
  if (!tokenizer.chat_template().empty()) {
    auto chat = make_jinja_chat(tokenizer);
    if (chat) return ChatFormat(std::make_shared<const JinjaChat>(std::move(*chat)));
    if (!is_k2) {
      return fail(
          ErrorKind::usage,
          "{}; Sluice cannot write this model's conversations, and writes none that the "
          "model was not made for: use it without chat (`sluice run -p TEXT`, or --ids with "
          "a conversation made elsewhere; over HTTP, /v1/completions)",
          chat.error().message);
    }
    log_note("{}; conversations are written as Sluice knows Kimi K2's", chat.error().message);
  }
  if (is_k2) return k2_format(tokenizer);
  if (has_all(tokenizer, kChatMl)) return ChatFormat(Kind::chatml);
  return fail(
      ErrorKind::usage,
      "the model's special tokens belong to no chat format that Sluice knows (Kimi K3, Kimi "
      "K2, ChatML); use it without chat (`sluice run -p TEXT`; over HTTP, /v1/completions)");
}

Result<std::vector<Segment>> ChatFormat::render(const ChatRequest& request) const {
  switch (kind_) {
    case Kind::kimi_k3:
      return render_k3(request);
    case Kind::kimi_k2:
      return render_k2(request, thinks_);
    case Kind::chatml:
      return render_chatml(request);
    case Kind::jinja:
    case Kind::harmony:
      return render_jinja(*jinja_, request);
  }
  return render_k3(request);
}

Result<std::vector<std::int32_t>> ChatFormat::encode(const Tokenizer& tokenizer,
                                                     const ChatRequest& request) const {
  SLUICE_ASSIGN(const std::vector<Segment> segments, render(request));
  SLUICE_ASSIGN(auto ids,
                encode_segments(tokenizer, segments, request.after == 0 && request.begins));
  if (ids.empty() && request.generation_prompt) {
    return fail(ErrorKind::usage, "the model's chat template writes nothing for this conversation");
  }
  return ids;
}

bool ChatFormat::opens_reasoning(const Tokenizer& tokenizer,
                                 std::span<const std::int32_t> prompt) const {
  if (kind_ == Kind::kimi_k3 || kind_ == Kind::harmony) {
    const std::string_view written =
        kind_ == Kind::kimi_k3 ? "<|open|>think<|sep|>" : "<|channel|>analysis<|message|>";
    const auto opening = tokenizer.encode(written, Tokenizer::Special::as_control, false);
    return opening && prompt.size() >= opening->size() &&
           std::ranges::equal(prompt.last(opening->size()), *opening);
  }
  while (!prompt.empty() && is_blank(tokenizer.bytes_of(prompt.back()))) {
    prompt = prompt.first(prompt.size() - 1);
  }
  const auto marker = tokenizer.special_id("<think>");
  return marker && tokenizer.is_control(*marker) && !prompt.empty() && prompt.back() == *marker;
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
