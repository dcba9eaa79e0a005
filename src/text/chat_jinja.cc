#include "text/chat_jinja.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "text/chat_message.h"

namespace sluice::text {
namespace {

using jinja::Origin;
using jinja::Value;

constexpr std::size_t kMostMessages = 60'000;  // each has an origin of its own

/// gpt-oss's template takes either a thought or a content before a call, and fails on both.
bool gives_thoughts(const ChatMessage& message) {
  const bool has_content =
      std::ranges::any_of(message.content, [](const std::string& part) { return !part.empty(); });
  return !message.reasoning.empty() && (message.calls.empty() || !has_content);
}

/// Calls as gpt-oss's template wants them: their arguments are objects, where they are JSON at all.
Value calls_value(const Json& calls, const ChatMessage& read, Origin origin) {
  Json all = calls;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Json& call = all[i];
    const bool wrapped = call.contains("function") && call["function"].is_object();
    Json& function = wrapped ? call["function"] : call;
    if (!read.calls[i].raw_arguments) function["arguments"] = read.calls[i].arguments;
  }
  return Value::from_json(all, origin);
}

/// A message as templates want it: the role is one that read_messages() knows, so it is no data;
/// the content is one text.
Value message_value(const JinjaChat& chat, const Json& message, const ChatMessage& read,
                    Origin origin) {
  jinja::Dictionary members;
  for (const auto& [key, value] : message.items()) {
    if (key == "role") {
      members.emplace_back(key, Value::text(value.get<std::string>()));
    } else if (key == "content") {
      std::string content;
      for (const std::string& part : read.content) content += part;
      members.emplace_back(key, Value::text(content, origin));
    } else if (key == "tool_calls" && chat.has_channels) {
      if (!read.calls.empty()) members.emplace_back(key, calls_value(value, read, origin));
    } else {
      members.emplace_back(key, Value::from_json(value, origin));
    }
  }
  if (chat.has_channels && gives_thoughts(read)) {
    members.emplace_back("thinking", Value::text(read.reasoning, origin));
  }
  return Value::dictionary(std::move(members));
}

Result<jinja::Dictionary> names_for(const JinjaChat& chat, const ChatRequest& request) {
  // Without a call to come, gpt-oss is offered no tool.
  const bool offers_none = chat.has_channels && request.tool_choice == "none";
  if (!request.tool_choice.is_null() && request.tool_choice != "auto" && !offers_none) {
    return fail(ErrorKind::usage,
                "tool_choice: not supported by this model's chat format in Sluice");
  }
  if (!request.response_format.is_null()) {
    return fail(ErrorKind::usage,
                "response_format: not supported by this model's chat format in Sluice");
  }
  SLUICE_ASSIGN(const std::vector<ChatMessage> read, read_messages(request.messages));
  if (read.size() > kMostMessages) {
    return fail(ErrorKind::usage, "messages: {} of them; at most {} are accepted", read.size(),
                kMostMessages);
  }
  jinja::List messages;
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (chat.has_channels && read[i].calls.size() > 1) {  // the template would drop all but one
      return fail(ErrorKind::usage, "messages[{}].tool_calls: this model makes one call at a time",
                  i);
    }
    messages.push_back(
        message_value(chat, request.messages[i], read[i], static_cast<Origin>(i + 1)));
  }
  jinja::Dictionary names = {
      {"messages", Value::list(std::move(messages))},
      {"add_generation_prompt", Value::flag(request.generation_prompt)},
      {"bos_token", Value::text(chat.begin)},
      {"eos_token", Value::text(chat.end)},
      {"enable_thinking", Value::flag(request.thinking)},
  };
  if (chat.has_channels &&
      (request.effort == "low" || request.effort == "medium" || request.effort == "high")) {
    names.emplace_back("reasoning_effort", Value::text(request.effort));
  }
  names.emplace_back("tools", request.tools.empty() || offers_none
                                  ? Value::none()
                                  : Value::from_json(request.tools, jinja::kOtherData));
  return names;
}

/// The special token that begins at `at`, if the template wrote all of it.
std::string_view special_at(const JinjaChat& chat, const jinja::Text& text, std::size_t at) {
  if (text.origins[at] != jinja::kTemplate) return {};
  for (const std::string& special : chat.specials) {
    if (text.bytes.compare(at, special.size(), special) != 0) continue;
    const auto begin = text.origins.begin() + static_cast<std::ptrdiff_t>(at);
    const bool own = std::all_of(begin, begin + static_cast<std::ptrdiff_t>(special.size()),
                                 [](Origin origin) { return origin == jinja::kTemplate; });
    if (own) return special;
  }
  return {};
}

std::vector<Segment> segments_of(const JinjaChat& chat, const jinja::Text& text, std::size_t from) {
  std::vector<Segment> segments;
  std::string plain;
  const auto end_plain = [&] {
    if (!plain.empty()) segments.push_back({std::move(plain), false});
    plain.clear();
  };
  for (std::size_t at = from; at < text.size();) {
    const std::string_view special = special_at(chat, text, at);
    if (special.empty()) {
      plain += text.bytes[at++];
      continue;
    }
    end_plain();
    segments.push_back({std::string(special), true});
    at += special.size();
  }
  end_plain();
  return segments;
}

/// A number that is none of a template: parse_json() keeps one beyond 64 bits as its digits.
bool has_long_number(const Json& json) {
  if (json.is_number_unsigned()) return json.get<std::uint64_t>() > INT64_MAX;
  if (json.is_binary()) return true;
  return json.is_structured() && std::any_of(json.begin(), json.end(), has_long_number);
}

}  // namespace

Result<JinjaChat> make_jinja_chat(const Tokenizer& tokenizer) {
  auto parsed = jinja::Template::parse(tokenizer.chat_template());
  if (!parsed) {
    return fail(parsed.error().kind, "the model's chat template: {}", parsed.error().message);
  }
  JinjaChat chat{std::move(*parsed), {}, tokenizer.begin_spelling(), tokenizer.end_spelling()};
  static constexpr std::array<std::string_view, 4> kChannels = {"<|start|>", "<|channel|>",
                                                                "<|message|>", "<|end|>"};
  chat.has_channels = std::ranges::all_of(
      kChannels, [&](std::string_view name) { return tokenizer.special_id(name).has_value(); });
  for (std::size_t id = 0; id < tokenizer.vocabulary(); ++id) {
    const auto each = static_cast<std::int32_t>(id);
    if (tokenizer.is_control(each)) chat.specials.emplace_back(tokenizer.bytes_of(each));
  }
  std::ranges::stable_sort(chat.specials, std::ranges::greater(), &std::string::size);
  return chat;
}

Result<std::vector<Segment>> render_jinja(const JinjaChat& chat, const ChatRequest& request) {
  for (const auto& [field, json] :
       {std::pair{"messages", &request.messages}, std::pair{"tools", &request.tools}}) {
    if (has_long_number(*json)) {
      return fail(ErrorKind::usage,
                  "{}: a whole number of more than 63 bits cannot be told to this model as it is",
                  field);
    }
  }
  SLUICE_ASSIGN(const jinja::Dictionary names, names_for(chat, request));
  auto text = chat.chat_template.render(names, request.now);
  if (!text) {
    return fail(text.error().kind, "the model's chat template: {}", text.error().message);
  }
  std::size_t from = 0;
  if (request.after > 0) {
    const auto last =
        std::find(text->origins.rbegin(), text->origins.rend(), static_cast<Origin>(request.after));
    from = static_cast<std::size_t>(text->origins.rend() - last);
    if (from == 0) {
      return fail(ErrorKind::usage,
                  "the model's chat template leaves out message {} of the conversation, so it "
                  "cannot be continued; begin a new one",
                  request.after);
    }
  }
  return segments_of(chat, *text, from);
}

}  // namespace sluice::text
