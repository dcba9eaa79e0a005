#include "text/chat_message.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "text/utf8.h"

namespace sluice::text {
namespace {

// A member of an object; nullptr if it is missing or null.
const Json* member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

tl::unexpected<Error> wrong(const std::string& where, std::string_view what) {
  return fail(ErrorKind::usage, "{}: {}", where, what);
}

// A string, or nothing if the member is missing or null.
Result<std::optional<std::string>> read_string(const Json& object, const char* key,
                                               const std::string& where) {
  const Json* value = member(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return wrong(where + "." + key, "must be a string");
  return value->get<std::string>();
}

// An id is compared as text; clients send strings, some send numbers.
Result<std::optional<std::string>> read_id(const Json& object, const char* key,
                                           const std::string& where) {
  const Json* value = member(object, key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  if (value->is_number_integer()) return python_json(*value, JsonForm::spaced);
  return wrong(where + "." + key, "must be a string");
}

Result<std::string> read_part(const Json& part, const std::string& where) {
  if (!part.is_object()) return wrong(where, "must be an object with \"type\" and \"text\"");
  SLUICE_ASSIGN(const auto type, read_string(part, "type", where));
  if (type == "image" || type == "image_url") {
    return wrong(where, "is an image; Sluice runs the language model only, send text");
  }
  const Json* text = member(part, "text");
  if (text != nullptr && text->is_string()) return text->get<std::string>();
  if (type.value_or("text") == "text") return wrong(where + ".text", "must be a string");
  return wrong(where,
               fmt::format("has no \"text\"; parts of type \"{}\" are not understood", *type));
}

Result<std::vector<std::string>> read_content(const Json& message, const std::string& where) {
  std::vector<std::string> texts;
  const Json* content = member(message, "content");
  if (content == nullptr) return texts;
  if (content->is_string()) {
    texts.push_back(content->get<std::string>());
    return texts;
  }
  if (!content->is_array()) return wrong(where + ".content", "must be a string or a list of parts");
  for (std::size_t i = 0; i < content->size(); ++i) {
    SLUICE_ASSIGN(std::string text,
                  read_part((*content)[i], fmt::format("{}.content[{}]", where, i)));
    texts.push_back(std::move(text));
  }
  return texts;
}

Status read_arguments(const Json& function, const std::string& where, ToolCall& call) {
  const Json* arguments = member(function, "arguments");
  if (arguments == nullptr) return {};
  if (arguments->is_object()) {
    call.arguments = *arguments;
    return {};
  }
  if (!arguments->is_string()) return wrong(where, "must be an object or a string that holds one");
  const auto& text = arguments->get_ref<const std::string&>();
  if (is_blank(text)) return {};
  auto parsed = parse_json(text, where, ErrorKind::usage);
  if (!parsed) {
    call.raw_arguments = text;
    return {};
  }
  if (!parsed->is_object()) return wrong(where, "are JSON, but not an object");
  call.arguments = std::move(*parsed);
  return {};
}

Result<ToolCall> read_call(const Json& json, const std::string& where) {
  if (!json.is_object()) return wrong(where, "must be an object");
  const Json* nested = member(json, "function");
  const bool wrapped = nested != nullptr && nested->is_object();
  const Json& function = wrapped ? *nested : json;
  const std::string inside = wrapped ? where + ".function" : where;
  ToolCall call;
  SLUICE_ASSIGN(call.id, read_id(json, "id", where));
  SLUICE_ASSIGN(auto name, read_string(function, "name", inside));
  if (!name) return wrong(inside + ".name", "is missing");
  call.name = std::move(*name);
  SLUICE_TRY(read_arguments(function, inside + ".arguments", call));
  return call;
}

Status read_assistant(const Json& json, const std::string& where, ChatMessage& message) {
  SLUICE_ASSIGN(auto reasoning, read_string(json, "reasoning_content", where));
  if (!reasoning || reasoning->empty()) {
    SLUICE_ASSIGN(reasoning, read_string(json, "reasoning", where));
  }
  if (reasoning && !is_blank(*reasoning)) message.reasoning = std::move(*reasoning);
  const Json* calls = member(json, "tool_calls");
  if (calls == nullptr) return {};
  if (!calls->is_array()) return wrong(where + ".tool_calls", "must be a list");
  for (std::size_t i = 0; i < calls->size(); ++i) {
    SLUICE_ASSIGN(ToolCall call,
                  read_call((*calls)[i], fmt::format("{}.tool_calls[{}]", where, i)));
    message.calls.push_back(std::move(call));
  }
  return {};
}

Status read_tool_result(const Json& json, const std::string& where, ChatMessage& message) {
  // A null in the first of two fields hides the second: what is written there is what counts.
  SLUICE_ASSIGN(message.call_id,
                read_id(json, json.contains("tool_call_id") ? "tool_call_id" : "id", where));
  SLUICE_ASSIGN(message.tool_name,
                read_string(json, json.contains("tool") ? "tool" : "name", where));
  return {};
}

Status read_late_tools(const Json& json, const std::string& where, ChatMessage& message) {
  const Json* tools = member(json, "tools");
  if (tools == nullptr) return {};
  if (!tools->is_array()) return wrong(where + ".tools", "must be a list");
  if (!tools->empty()) message.tools = *tools;
  return {};
}

Result<ChatMessage> read_message(const Json& json, const std::string& where) {
  using Role = ChatMessage::Role;
  if (!json.is_object()) return wrong(where, "must be an object");
  SLUICE_ASSIGN(const auto role, read_string(json, "role", where));
  if (!role) return wrong(where + ".role", "is missing");
  ChatMessage message{};
  if (*role == "system") {
    message.role = Role::system;
    SLUICE_TRY(read_late_tools(json, where, message));
  } else if (*role == "user") {
    message.role = Role::user;
  } else if (*role == "assistant") {
    message.role = Role::assistant;
    SLUICE_TRY(read_assistant(json, where, message));
  } else if (*role == "tool") {
    message.role = Role::tool;
    SLUICE_TRY(read_tool_result(json, where, message));
  } else {
    return wrong(where + ".role",
                 fmt::format("must be system, user, assistant or tool, not \"{}\"", *role));
  }
  if (message.role != Role::tool) {
    SLUICE_ASSIGN(auto name, read_string(json, "name", where));
    message.name = std::move(name).value_or("");
  }
  if (message.tools.is_null()) {  // the content of a late declaration is not used
    SLUICE_ASSIGN(message.content, read_content(json, where));
  }
  return message;
}

}  // namespace

Result<std::vector<ChatMessage>> read_messages(const Json& messages) {
  if (!messages.is_array()) return wrong("messages", "must be a list");
  std::vector<ChatMessage> read;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    SLUICE_ASSIGN(ChatMessage message, read_message(messages[i], fmt::format("messages[{}]", i)));
    read.push_back(std::move(message));
  }
  return read;
}

void order_tool_results(std::vector<ChatMessage>& messages) {
  using Role = ChatMessage::Role;
  const std::vector<ToolCall> none;
  const std::vector<ToolCall>* calls = &none;
  const auto is_tool = [](const ChatMessage& message) { return message.role == Role::tool; };
  const auto called = [&](const ChatMessage& message) {  // number of the call, or calls->size()
    const auto same = [&](const ToolCall& call) { return call.id && call.id == message.call_id; };
    return std::find_if(calls->begin(), calls->end(), same) - calls->begin();
  };
  for (auto at = messages.begin(); at != messages.end();) {
    if (!is_tool(*at)) {
      if (at->role == Role::assistant) calls = &at->calls;
      ++at;
      continue;
    }
    const auto end = std::find_if_not(at, messages.end(), is_tool);
    const auto count = static_cast<std::ptrdiff_t>(calls->size());
    if (std::all_of(at, end, [&](const auto& message) { return called(message) < count; })) {
      std::stable_sort(at, end,
                       [&](const auto& a, const auto& b) { return called(a) < called(b); });
      for (; at != end; ++at) at->tool_name = (*calls)[static_cast<std::size_t>(called(*at))].name;
    }
    at = end;
  }
}

}  // namespace sluice::text
