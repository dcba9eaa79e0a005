// The messages of a request, checked and typed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/json.h"

namespace sluice::text {

/// A call of a tool in an assistant's message.
struct ToolCall {
  std::optional<std::string> id;
  std::string name;
  Json arguments = Json::object();  ///< in their own order
  /// Arguments that were a string, but nothing that parse_json() takes; `arguments` is empty then.
  std::optional<std::string> raw_arguments;
};

/// A message; fields that its role does not have are empty.
struct ChatMessage {
  enum class Role { system, user, assistant, tool };
  Role role;
  std::string name;
  std::vector<std::string> content;    ///< texts, one per part
  std::string reasoning;               ///< of an assistant; empty if there is none but white space
  std::vector<ToolCall> calls;         ///< of an assistant
  Json tools;                          ///< of a system message: a late declaration, or null
  std::optional<std::string> call_id;  ///< of a tool's message: which call it answers
  std::optional<std::string> tool_name;  ///< of a tool's message
};

/// Reads a list of messages. Fails with ErrorKind::usage, naming the field as in
/// "messages[2].tool_calls[0]...". Image parts are refused.
Result<std::vector<ChatMessage>> read_messages(const Json& messages);

/// Sorts each run of tool messages by the order of the calls that they answer, and names them after
/// these, if all of the run name a call of the last assistant message. Other runs stay as they are.
void order_tool_results(std::vector<ChatMessage>& messages);

}  // namespace sluice::text
