// The tokenizer.json files in tests/golden/tokenizers, and what belongs to them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "text/small_file.h"
#include "text/tokenizer_json.h"

namespace sluice::text {

inline std::string tokenizers_file(const std::string& name) {
  const auto folder = std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/golden/tokenizers";
  return read_small_file(folder / name, std::uint64_t{1} << 24).value();
}

inline Result<Tokenizer> parse_tokenizer(const std::string& kind, ChatFiles chat = {}) {
  return parse_tokenizer_json(tokenizers_file(kind + ".json"), std::move(chat), kind + ".json");
}

}  // namespace sluice::text
