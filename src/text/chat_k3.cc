#include "text/chat_k3.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "text/chat_message.h"

namespace sluice::text {
namespace {

constexpr std::string_view kTools =
    "# Tools\nHere are the available tools, described in JSONSchema.";
constexpr std::string_view kLateTools =
    "## New Tools Available\n"
    "The system dynamically extends the toolset via lazy-loading.\n"
    "You have access to all existing and extended tools.\n"
    "Here are the specs for the extended tools.";
constexpr std::string_view kEffort =
    "`thinking_effort` guides on how much to think in your thinking channel (not including the "
    "response channel), supported values include `low`, `medium`, `high`, and `max`.\n"
    "Now the system is invoked with `thinking_effort={}`.";
constexpr std::string_view kChoiceRequired =
    "The system is invoked with `tool_choice=required`.\n"
    "You MUST call tools in the next message.";
constexpr std::string_view kChoiceNone =
    "The system is invoked with `tool_choice=none`.\n"
    "You MUST NOT call any tools in the next message.";
constexpr std::string_view kRawJson =
    "The system is invoked with `response_format={}`.\n"
    "Your response must be raw JSON data without markdown code blocks (```json) or any additional "
    "formatting.";
constexpr std::string_view kSchema =
    "\nThe JSON data must match the following schema:\n```json\n{}\n```";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

const char* type_of(const Json& value) {
  if (value.is_boolean()) return "boolean";
  if (value.is_null()) return "null";
  if (is_json_number(value)) return "number";
  if (value.is_string()) return "string";
  return value.is_object() ? "object" : "array";
}

struct Attribute {
  std::string_view key;
  std::string_view value;
};

// Puts segments together. An attribute is four texts, a marker is a segment of its own.
class Writer {
 public:
  void control(std::string_view text) { segments_.push_back({std::string(text), true}); }
  void text(std::string_view text) {
    if (!text.empty()) segments_.push_back({std::string(text), false});
  }
  void open(std::string_view tag, std::initializer_list<Attribute> attributes = {}) {
    open(tag, attributes.begin(), attributes.end());
  }
  void open(std::string_view tag, const std::vector<Attribute>& attributes) {
    open(tag, attributes.data(), attributes.data() + attributes.size());
  }
  void close(std::string_view tag) {
    control("<|close|>");
    text(tag);
    control("<|sep|>");
  }
  void end_message() {
    close("message");
    control("<|end_of_msg|>");
  }
  void system(std::string_view type, std::string_view body) {
    open("message", {{"role", "system"}, {"type", type}});
    text(body);
    end_message();
  }
  std::vector<Segment> take() { return std::move(segments_); }

 private:
  void open(std::string_view tag, const Attribute* begin, const Attribute* end) {
    control("<|open|>");
    text(tag);
    for (const Attribute* attribute = begin; attribute != end; ++attribute) {
      text(fmt::format(" {}", attribute->key));
      text("=\"");
      text(escape_attribute(attribute->value));
      text("\"");
    }
    control("<|sep|>");
  }

  std::vector<Segment> segments_;
};

void write_tools(Writer& writer, const Json& tools, std::string_view head) {
  writer.system("tool-declare", fmt::format("{}\n\n```json\n{}\n```", head,
                                            python_json(tools, JsonForm::compact_sorted)));
}

void write_call(Writer& writer, const ToolCall& call, std::size_t index) {
  writer.open("call", {{"tool", call.name}, {"index", std::to_string(index)}});
  if (call.raw_arguments) {
    writer.open("json", {{"type", "object"}});
    writer.text(*call.raw_arguments);
    writer.close("json");
  }
  for (const auto& [key, value] : call.arguments.items()) {
    writer.open("argument", {{"key", key}, {"type", type_of(value)}});
    writer.text(value.is_string() ? value.get_ref<const std::string&>()
                                  : python_json(value, JsonForm::spaced));
    writer.close("argument");
  }
  writer.close("call");
}

void write_assistant(Writer& writer, const ChatMessage& message, bool thinking) {
  if (thinking) {
    writer.open("think");
    writer.text(message.reasoning);
    writer.close("think");
  }
  writer.open("response");
  for (const std::string& part : message.content) writer.text(part);
  writer.close("response");
  if (message.calls.empty()) return;
  writer.open("tools");
  for (std::size_t i = 0; i < message.calls.size(); ++i)
    write_call(writer, message.calls[i], i + 1);
  writer.close("tools");
}

constexpr std::string_view role_of(const ChatMessage& message) {
  switch (message.role) {
    case ChatMessage::Role::system:
      return "system";
    case ChatMessage::Role::user:
      return "user";
    case ChatMessage::Role::assistant:
      return "assistant";
    case ChatMessage::Role::tool:
      break;
  }
  return "tool";
}

// Writes the messages one by one, and keeps count of the tool messages behind an assistant's.
class History {
 public:
  History(Writer& writer, bool thinking) : writer_(writer), thinking_(thinking) {}

  Status write(const ChatMessage& message) {
    if (message.role == ChatMessage::Role::tool) return write_tool_result(message);
    if (!message.tools.is_null()) {
      write_tools(writer_, message.tools, kLateTools);
      return {};
    }
    std::vector<Attribute> attributes = {{"role", role_of(message)}};
    if (!message.name.empty()) attributes.push_back({"name", message.name});
    writer_.open("message", attributes);
    if (message.role == ChatMessage::Role::assistant) {
      calls_ = &message.calls;
      position_ = 0;
      write_assistant(writer_, message, thinking_);
    } else {
      for (const std::string& part : message.content) writer_.text(part);
    }
    writer_.end_message();
    return {};
  }

 private:
  bool is_called(const std::string& id) const {
    return calls_ != nullptr && std::any_of(calls_->begin(), calls_->end(),
                                            [&](const auto& call) { return call.id == id; });
  }

  Status write_tool_result(const ChatMessage& message) {
    ++position_;
    std::string_view name;
    if (message.tool_name) {
      name = *message.tool_name;
    } else if (calls_ != nullptr && position_ <= calls_->size()) {
      name = (*calls_)[position_ - 1].name;
    } else if (message.call_id && !is_called(*message.call_id)) {
      return fail(ErrorKind::usage,
                  "messages: a tool message answers \"{}\", but no call has that id",
                  message.call_id->substr(0, 80));
    } else {
      return fail(ErrorKind::usage,
                  "messages: a tool message says neither which call it answers nor a tool's name");
    }
    writer_.open("message",
                 {{"role", "tool"}, {"tool", name}, {"index", std::to_string(position_)}});
    for (const std::string& part : message.content) writer_.text(part);
    writer_.end_message();
    return {};
  }

  Writer& writer_;
  const bool thinking_;
  const std::vector<ToolCall>* calls_ = nullptr;  // of the last assistant message
  std::size_t position_ = 0;                      // tool messages since then
};

Status write_effort(Writer& writer, const ChatRequest& request) {
  const std::string& effort = request.effort;
  if (!request.thinking || effort.empty()) return {};
  if (effort == "medium") {
    return fail(ErrorKind::usage,
                "thinking effort: K3 was not trained for medium; choose low, high or max");
  }
  if (effort != "low" && effort != "high" && effort != "max") {
    return fail(ErrorKind::usage, "thinking effort: must be low, high or max, not \"{}\"", effort);
  }
  writer.system("thinking-effort", fmt::format(fmt::runtime(kEffort), effort));
  return {};
}

Status write_tool_choice(Writer& writer, const Json& choice) {
  if (choice.is_null() || choice == "auto") return {};
  if (choice == "required") {
    writer.system("tool-choice", kChoiceRequired);
  } else if (choice == "none") {
    writer.system("tool-choice", kChoiceNone);
  } else {
    return fail(ErrorKind::usage, "tool_choice: must be \"auto\", \"none\" or \"required\"");
  }
  return {};
}

// The schema inside of a response_format, in whichever of the customary wrappings it comes.
const Json* schema_of(const Json& format) {
  const auto outer = format.find("json_schema");
  if (outer == format.end() || outer->is_null()) return nullptr;
  if (!outer->is_object()) return &*outer;
  for (const char* key : {"schema", "json_schema"}) {
    if (const auto inner = outer->find(key); inner != outer->end()) return &*inner;
  }
  return &*outer;
}

Status write_response_format(Writer& writer, const Json& format) {
  if (format.is_null()) return {};
  const Json* type = &format;
  if (format.is_object()) {
    const auto found = format.find("type");
    if (found == format.end()) return fail(ErrorKind::usage, "response_format.type: is missing");
    type = &*found;
  }
  if (*type == "text") return {};
  if (*type == "json_object") {
    writer.system("response-format", fmt::format(fmt::runtime(kRawJson), "json_object"));
    return {};
  }
  if (*type != "json_schema") {
    return fail(ErrorKind::usage,
                "response_format: type must be \"text\", \"json_object\" or \"json_schema\"");
  }
  const Json* schema = format.is_object() ? schema_of(format) : nullptr;
  if (schema == nullptr) {
    return fail(ErrorKind::usage, "response_format.json_schema: is missing");
  }
  writer.system("response-format", fmt::format(fmt::runtime(kRawJson), "json_schema") +
                                       fmt::format(fmt::runtime(kSchema),
                                                   python_json(*schema, JsonForm::compact_sorted)));
  return {};
}

}  // namespace

Result<std::vector<Segment>> render_k3(const ChatRequest& request) {
  Writer writer;
  if (!request.tools.is_null() && !request.tools.is_array()) {
    return fail(ErrorKind::usage, "tools: must be a list");
  }
  if (!request.tools.empty()) write_tools(writer, request.tools, kTools);
  SLUICE_TRY(write_effort(writer, request));
  SLUICE_ASSIGN(std::vector<ChatMessage> messages, read_messages(request.messages));
  order_tool_results(messages);
  History history(writer, request.thinking);
  for (const ChatMessage& message : messages) SLUICE_TRY(history.write(message));
  SLUICE_TRY(write_tool_choice(writer, request.tool_choice));
  SLUICE_TRY(write_response_format(writer, request.response_format));
  if (request.generation_prompt) {
    writer.open("message", {{"role", "assistant"}});
    writer.open(request.thinking ? "think" : "response");
  }
  return writer.take();
}

std::string escape_attribute(std::string_view value) {
  std::string text(value);
  replace_all(text, "&", "&amp;");
  replace_all(text, "\"", "&quot;");
  return text;
}

std::string unescape_attribute(std::string_view written) {
  std::string text(written);
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  return text;
}

}  // namespace sluice::text
