#include "text/chat_files.h"

#include <cstdint>
#include <system_error>
#include <utility>

#include "text/json.h"
#include "text/small_file.h"

namespace sluice::text {
namespace {

constexpr std::uint64_t kLimit = std::uint64_t{8} << 20;

/// A string, or the content of an object, as tokens are written.
std::string token_of(const Json& config, const char* name) {
  const auto found = config.find(name);
  if (found == config.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  const auto content = found->is_object() ? found->find("content") : found->end();
  return found->is_object() && content != found->end() && content->is_string()
             ? content->get<std::string>()
             : "";
}

/// The template, or of several with names the one for all purposes.
std::string template_of(const Json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end() || !found->is_array()) return token_of(config, "chat_template");
  for (const Json& each : *found) {
    if (!each.is_object() || token_of(each, "name") != "default") continue;
    return token_of(each, "template");
  }
  return "";
}

}  // namespace

Result<ChatFiles> read_chat_files(const std::filesystem::path& folder) {
  ChatFiles files;
  const auto path = folder / "tokenizer_config.json";
  if (const auto text = read_small_file(path, kLimit)) {
    const auto root = parse_json(*text, path.native(), ErrorKind::model_files);
    if (root && root->is_object()) {
      files.chat_template = template_of(*root);
      files.begin = token_of(*root, "bos_token");
      files.end = token_of(*root, "eos_token");
    }
  }
  const auto own = folder / "chat_template.jinja";
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(own, ignored))) {
    SLUICE_ASSIGN(files.chat_template, read_small_file(own, kLimit));
  }
  return files;
}

}  // namespace sluice::text
