#include "server/anthropic_messages.h"

#include <string>
#include <utility>

namespace sluice::server {
namespace {

/// The type of a piece of a message.
ApiResult<std::string> block_type(Fields& fields) {
  SLUICE_ASSIGN(const auto type, fields.text("type"));
  if (!type) return refuse(fields.name_of("type"), "is missing");
  SLUICE_TRY(read_cache_control(fields));
  return *type;
}

ApiResult<std::string> text_block(const Json& block, const std::string& where) {
  if (!block.is_object()) return refuse(where, "must be an object");
  Fields fields(block, where);
  SLUICE_ASSIGN(const std::string type, block_type(fields));
  if (type != "text") return refuse(where + ".type", "only text is understood here");
  SLUICE_ASSIGN(const auto text, fields.text("text"));
  if (!text) return refuse(where + ".text", "is missing");
  SLUICE_TRY(fields.only("citations", {Json::array()}));
  SLUICE_TRY(fields.finish());
  return *text;
}

/// A string, or a list of text blocks, as a list of text parts.
ApiResult<Json> text_parts(const Json& content, const std::string& where) {
  if (content.is_string()) return content;
  if (!content.is_array()) return refuse(where, "must be a string or a list of blocks");
  Json parts = Json::array();
  for (std::size_t i = 0; i < content.size(); ++i) {
    SLUICE_ASSIGN(std::string text, text_block(content[i], fmt::format("{}[{}]", where, i)));
    parts.push_back({{"type", "text"}, {"text", std::move(text)}});
  }
  return parts;
}

/// Turns one message into those of the chat format: results of tools are messages of their own
/// there.
class MessageReader {
 public:
  explicit MessageReader(Json& messages) : messages_(messages) {}

  ApiStatus read(const Json& message, const std::string& where) {
    if (!message.is_object()) return refuse(where, "must be an object");
    Fields fields(message, where);
    SLUICE_ASSIGN(const auto role, fields.text("role"));
    const Json* const content = fields.get("content");
    SLUICE_TRY(fields.finish());
    if (role != "user" && role != "assistant") {
      return refuse(where + ".role", "must be user or assistant");
    }
    if (content == nullptr) return refuse(where + ".content", "is missing");
    message_ = {{"role", *role}, {"content", Json::array()}};
    if (content->is_string()) {
      message_["content"] = *content;
      messages_.push_back(std::move(message_));
      return {};
    }
    if (!content->is_array()) return refuse(where + ".content", "must be a string or a list");
    for (std::size_t i = 0; i < content->size(); ++i) {
      SLUICE_TRY(read_block((*content)[i], fmt::format("{}.content[{}]", where, i)));
    }
    if (*role == "assistant" || !message_["content"].empty()) {
      messages_.push_back(std::move(message_));
    }
    return {};
  }

 private:
  ApiStatus read_block(const Json& block, const std::string& where) {
    if (!block.is_object()) return refuse(where, "must be an object");
    Fields fields(block, where);
    SLUICE_ASSIGN(const std::string type, block_type(fields));
    const bool is_user = message_["role"] == "user";
    if (type == "text") {
      SLUICE_ASSIGN(std::string text, text_block(block, where));
      message_["content"].push_back({{"type", "text"}, {"text", std::move(text)}});
      return {};
    }
    if (type == "tool_result" && is_user) return read_result(fields);
    if (type == "tool_use" && !is_user) return read_use(fields);
    if (type == "thinking" && !is_user) return read_thinking(fields);
    return refuse(where + ".type", "\"{}\" is not supported in a message of this role",
                  type.substr(0, 40));
  }

  ApiStatus read_thinking(Fields& fields) {
    SLUICE_ASSIGN(const auto thinking, fields.text("thinking"));
    SLUICE_ASSIGN(const auto signature, fields.text("signature"));  // Sluice's own are empty
    SLUICE_TRY(fields.finish());
    if (!thinking || !signature.value_or("").empty()) {
      return refuse(fields.name_of("signature"), "is of another server");
    }
    message_["reasoning_content"] = message_.value("reasoning_content", "") + *thinking;
    return {};
  }

  ApiStatus read_use(Fields& fields) {
    SLUICE_ASSIGN(const auto id, fields.text("id"));
    SLUICE_ASSIGN(const auto name, fields.text("name"));
    const Json* const input = fields.get("input");
    SLUICE_TRY(fields.finish());
    if (!id) return refuse(fields.name_of("id"), "is missing");
    if (!name) return refuse(fields.name_of("name"), "is missing");
    if (input == nullptr || !input->is_object()) {
      return refuse(fields.name_of("input"), "must be an object");
    }
    Json& calls = message_["tool_calls"];
    if (calls.is_null()) calls = Json::array();
    calls.push_back({{"id", *id},
                     {"type", "function"},
                     {"function", {{"name", *name}, {"arguments", *input}}}});
    return {};
  }

  ApiStatus read_result(Fields& fields) {
    SLUICE_ASSIGN(const auto id, fields.text("tool_use_id"));
    const Json* const content = fields.get("content");
    SLUICE_ASSIGN(const auto is_error, fields.boolean("is_error"));
    SLUICE_TRY(fields.finish());
    if (!id) return refuse(fields.name_of("tool_use_id"), "is missing");
    Json parts = Json::array();
    if (is_error.value_or(false)) parts.push_back({{"type", "text"}, {"text", "Error: "}});
    if (content != nullptr) {
      SLUICE_ASSIGN(Json texts, text_parts(*content, fields.name_of("content")));
      if (texts.is_string()) texts = Json::array({{{"type", "text"}, {"text", texts}}});
      for (Json& text : texts) parts.push_back(std::move(text));
    }
    messages_.push_back({{"role", "tool"}, {"tool_call_id", *id}, {"content", std::move(parts)}});
    return {};
  }

  Json& messages_;
  Json message_;
};

}  // namespace

ApiStatus read_cache_control(Fields& fields) {
  const Json* const control = fields.get("cache_control");
  if (control == nullptr) return {};
  const std::string name = fields.name_of("cache_control");
  if (!control->is_object()) return refuse(name, "must be an object");
  Fields inner(*control, name);
  SLUICE_ASSIGN(const auto type, inner.text("type"));
  if (type != "ephemeral") return refuse(inner.name_of("type"), "must be \"ephemeral\"");
  SLUICE_TRY(inner.only("ttl", {"5m", "1h"}));
  return inner.finish();
}

ApiResult<Json> read_anthropic_messages(Fields& fields) {
  Json messages = Json::array();
  if (const Json* const system = fields.get("system"); system != nullptr) {
    SLUICE_ASSIGN(Json parts, text_parts(*system, "system"));
    messages.push_back({{"role", "system"}, {"content", std::move(parts)}});
  }
  const Json* const list = fields.get("messages");
  if (list == nullptr || !list->is_array() || list->empty()) {
    return refuse("messages", "must be a list of at least one message");
  }
  MessageReader reader(messages);
  for (std::size_t i = 0; i < list->size(); ++i) {
    SLUICE_TRY(reader.read((*list)[i], fmt::format("messages[{}]", i)));
  }
  if (list->back()["role"] == "assistant") {
    return refuse("messages",
                  "the last must be the user's; an answer cannot be begun for the model");
  }
  return messages;
}

}  // namespace sluice::server
