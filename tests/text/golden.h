// What the text tests share: the goldens in tests/golden/tokenizer.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "text/chat.h"
#include "text/json.h"
#include "text/small_file.h"
#include "text/tokenizer.h"

namespace sluice::text {

inline std::filesystem::path golden_folder() {
  return std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/golden/tokenizer";
}

inline std::string golden_text(const std::string& name) {
  return read_small_file(golden_folder() / name, std::uint64_t{1} << 24).value();
}

inline Json golden(const std::string& name) {
  return parse_json(golden_text(name), name, ErrorKind::usage).value();
}

/// The 1,200-token tokenizer with K3's special tokens.
inline const Tokenizer& golden_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::load(golden_folder()).value();
  return tokenizer;
}

/// 256 byte tokens with the special tokens of Kimi-Linear.
inline const Tokenizer& k2_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::load(golden_folder() / "k2").value();
  return tokenizer;
}

inline const ChatFormat kK3{ChatFormat::Kind::kimi_k3};
inline const ChatFormat kK2{ChatFormat::Kind::kimi_k2};

/// The ranks of golden_tokenizer() with these special tokens and this chat template.
inline Tokenizer tokenizer_with(const std::vector<std::string>& specials,
                                const std::string& chat_template = "") {
  constexpr std::size_t first = 1200;
  Json named = Json::object();
  for (std::size_t i = 0; i < specials.size(); ++i) {
    named[std::to_string(first + i)] = {{"content", specials[i]}};
  }
  const Json config = {{"added_tokens_decoder", named}};
  return Tokenizer::parse(golden_text("tiktoken.model"), config.dump(),
                          {chat_template, "[BOS]", ""})
      .value();
}

inline std::vector<std::int32_t> ids_of(const Json& list) {
  return list.get<std::vector<std::int32_t>>();
}

/// FNV-1a-64 over little-endian 32-bit words.
inline std::uint64_t fnv1a(const std::vector<std::uint32_t>& words) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const std::uint32_t word : words) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (word >> shift & 0xFF)) * 0x100000001B3;
    }
  }
  return hash;
}

/// Random numbers for property tests; the same in every run.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::size_t below(std::size_t bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state_ >> 33) % bound;
  }

 private:
  std::uint64_t state_;
};

/// Text out of everything that the split and the special tokens treat in its own way.
inline std::string random_text(Random& random, std::size_t most) {
  static const std::vector<std::string> alphabet = {
      "a",          "Z",          "É",
      "ß",          "ǅ",          "ʰ",
      "א",          "ह",          "\u0301",
      "漢",         "々",         "⺀",
      "〇",         "が",         "한",
      "0",          "٣",          "½",
      " ",          "  ",         "\t",
      "\n",         "\r\n",       "\u00a0",
      "\u3000",     "\u2028",     "\x1c",
      "\u0085",     "\u180e",     ".",
      "'s",         "'LL",        "'",
      "-",          "€",          "😀",
      "\u200d",     "_",          "\u017f",
      "the",        " model",     "𠀀",
      "𝒜",          "<|",         "|>",
      "<|sep|>",    "<|open|>",   "[EOS]",
      "[BOS",       "]",          "<|reserved_token_1208|>",
      "\U00031350", "\U00016FF0", "A",
      "B",          "c",          "d"};
  std::string text;
  for (std::size_t n = random.below(most + 1); n > 0; --n)
    text += alphabet[random.below(alphabet.size())];
  return text;
}

}  // namespace sluice::text
