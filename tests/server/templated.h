// k3-nano as a model of somebody else.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace sluice::server {

/// ChatML's turns, as a template.
inline const std::string kTurns =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' }}"
    "{% endfor %}<|im_start|>assistant\n";
/// Not understood, and so refused.
inline const std::string kInclude = "{{ bos_token }}\n{% include 'turns' %}";

/// Turns in the style of gpt-oss's.
inline const std::string kChannels =
    "<|start|>system<|message|>{{ strftime_now('%Y') }} {{ reasoning_effort or 'medium' }}<|end|>"
    "{% macro turn(m, who) %}{{ '<|start|>' + who + '<|message|>' + m.content }}{% endmacro %}"
    "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}"
    "{% for m in messages %}{{ turn(m, who=m.role) }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.arguments|tojson }}{% endfor %}<|end|>"
    "{% endfor %}<|start|>assistant";

/// New names of special tokens.
using Markers = std::vector<std::pair<std::string, std::string>>;
inline const Markers kChatMlMarkers = {{"<|open|>", "<|im_start|>"},
                                       {"<|end_of_msg|>", "<|im_end|>"},
                                       {"<|close|>", "</think>"},
                                       {"<|sep|>", "<think>"}};
inline const Markers kChannelMarkers = {
    {"<|open|>", "<|start|>"},          {"<|end_of_msg|>", "<|return|>"},
    {"<|close|>", "<|end|>"},           {"<|sep|>", "<|message|>"},
    {"<|media_begin|>", "<|channel|>"}, {"<|media_content|>", "<|constrain|>"},
    {"<|media_end|>", "<|call|>"}};

/// Makes a folder k3-nano with other markers in place of K3's, and with a chat template.
inline void make_templated_nano(const std::filesystem::path& folder,
                                const std::string& chat_template,
                                const Markers& markers = kChatMlMarkers) {
  const auto nano = std::filesystem::absolute(SLUICE_SOURCE_DIR "/models/k3-nano");
  for (const auto& file : std::filesystem::directory_iterator(nano)) {
    if (file.path().filename() == "tokenizer_config.json") continue;
    std::filesystem::create_symlink(file.path(), folder / file.path().filename());
  }
  std::ifstream config(nano / "tokenizer_config.json");
  nlohmann::ordered_json root = nlohmann::ordered_json::parse(config);
  for (auto& [id, token] : root["added_tokens_decoder"].items()) {
    for (const auto& [from, to] : markers) {
      if (token["content"] == from) token["content"] = to;
    }
  }
  std::ofstream(folder / "tokenizer_config.json") << root.dump();
  std::ofstream(folder / "chat_template.jinja") << chat_template;
}

}  // namespace sluice::server
