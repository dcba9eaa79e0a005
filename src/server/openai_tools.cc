#include "server/openai_tools.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/request_parts.h"

namespace sluice::server {
namespace {

bool is_tool_name(const Json& name) {
  if (!name.is_string()) return false;
  const auto& text = name.get_ref<const std::string&>();
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.';
  });
}

ApiStatus check_tool(const Json& tool, const std::string& where) {
  if (!tool.is_object()) return refuse(where, "must be an object");
  Fields fields(tool, where);
  SLUICE_ASSIGN(const auto type, fields.text("type"));
  if (type != "function") return refuse(where + ".type", "must be \"function\"");
  const Json* const function = fields.get("function");
  if (function == nullptr || !function->is_object()) {
    return refuse(where + ".function", "must be an object");
  }
  SLUICE_TRY(fields.finish());
  Fields inner(*function, where + ".function");
  const Json* const name = inner.get("name");
  if (name == nullptr || !is_tool_name(*name)) {
    return refuse(inner.name_of("name"), "must be 1 to 128 letters, digits, _, - and dots");
  }
  SLUICE_TRY(inner.text("description"));
  const Json* const parameters = inner.get("parameters");
  if (parameters != nullptr && !parameters->is_object()) {
    return refuse(inner.name_of("parameters"), "must be an object");
  }
  SLUICE_TRY(inner.boolean("strict"));
  return inner.finish();
}

/// A choice of one tool by name: that tool alone is offered, and a call is required.
ApiStatus choose_tool(const Json& choice, text::ChatRequest& chat) {
  const auto function = choice.find("function");
  const auto type = choice.find("type");
  if (type == choice.end() || *type != "function" || choice.size() != 2 ||
      function == choice.end() || !function->is_object() || function->size() != 1 ||
      !function->contains("name")) {
    return refuse("tool_choice",
                  "must be none, auto, required or {{\"type\": \"function\", "
                  "\"function\": {{\"name\": ...}}}}");
  }
  for (const Json& tool : chat.tools) {
    if (tool["function"]["name"] != (*function)["name"]) continue;
    Json chosen = Json::array({tool});
    chat.tools = std::move(chosen);
    chat.tool_choice = "required";
    return {};
  }
  return refuse("tool_choice", "names a tool that is not in tools");
}

}  // namespace

ApiStatus read_tools(Fields& fields, text::ChatRequest& chat, AnswerForm& form) {
  const Json* const tools = fields.get("tools");
  const Json* const choice = fields.get("tool_choice");
  SLUICE_ASSIGN(const auto parallel, fields.boolean("parallel_tool_calls"));
  if (tools == nullptr || (tools->is_array() && tools->empty())) {
    if (choice != nullptr && *choice != "none" && *choice != "auto") {
      return refuse("tool_choice", "needs tools");
    }
    return {};
  }
  if (!tools->is_array()) return refuse("tools", "must be a list");
  for (std::size_t i = 0; i < tools->size(); ++i) {
    SLUICE_TRY(check_tool((*tools)[i], fmt::format("tools[{}]", i)));
  }
  SLUICE_TRY(check_tool_names(*tools));
  chat.tools = *tools;
  form.one_call = !parallel.value_or(true);
  form.tools = true;
  if (choice == nullptr) return {};
  if (choice->is_object()) return choose_tool(*choice, chat);
  if (*choice != "none" && *choice != "auto" && *choice != "required") {
    return refuse("tool_choice", "must be none, auto, required or a function");
  }
  chat.tool_choice = *choice;
  form.tools = *choice != "none";
  return {};
}

}  // namespace sluice::server
