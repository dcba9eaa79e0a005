// The bytes of every token, and the way back from bytes to ids.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::text {

/// How a token comes to be.
enum class TokenKind : std::uint8_t {
  text,    ///< found by its bytes
  named,   ///< text that is found only by its spelling: a user's token, or one that nothing spells
  byte,    ///< a byte of a character that is no token
  marker,  ///< special: what a format writes, and no text becomes
};

/// The mergeable tokens of a tiktoken rank file (id = rank), and behind them special tokens, which
/// have bytes but are never found by them. One arena of bytes, offsets, and an open-addressing
/// table: about 18 bytes per token with K3's 163,584.
class Vocabulary {
 public:
  /// Longest token that a rank file may hold, in bytes.
  static constexpr std::size_t kLongestToken = 4096;

  /// Reads the text of a rank file: lines `base64(bytes) SPACE rank`, ranks 0, 1, 2, ... in order.
  /// All 256 single bytes must be there, so that any text can be encoded. `file` is for messages.
  /// Fails with ErrorKind::model_files, naming the line.
  static Result<Vocabulary> parse(std::string_view text, std::string_view file);

  /// An empty vocabulary, to be filled with append() and closed with index().
  Vocabulary() = default;
  /// Gives the next id to a token. ErrorKind::model_files if it is too long.
  Status append(std::string_view bytes, TokenKind kind);
  /// After the last append(): makes tokens findable. Fails with ErrorKind::model_files if two
  /// tokens of kind text have the same bytes, or, with `all_bytes`, a single byte is missing.
  Status index(std::string_view file, bool all_bytes);

  /// Gives the next ids to special tokens with these spellings, in order.
  void append_specials(std::span<const std::string> names);

  /// Number of mergeable tokens; their ids are below it. (Of a rank file.)
  std::size_t ranks() const { return ranks_; }
  /// Of an id below size().
  TokenKind kind_of(std::int32_t id) const {
    const auto at = static_cast<std::size_t>(id);
    if (at >= ranks_) return TokenKind::marker;
    return at < kinds_.size() ? kinds_[at] : TokenKind::text;
  }
  /// Number of all tokens.
  std::size_t size() const { return offsets_.size() - 1; }

  /// The bytes of a token; empty if there is none with this id.
  std::string_view bytes_of(std::int32_t id) const;

  /// The mergeable token with these bytes.
  std::optional<std::int32_t> find(std::string_view bytes) const;
  /// The mergeable token that is this byte alone; -1 if there is none.
  std::int32_t byte_token(std::uint8_t byte) const { return byte_tokens_[byte]; }

  std::uint64_t memory_bytes() const;

 private:
  Status read_line(std::string_view line);

  std::vector<char> arena_;
  std::vector<std::uint32_t> offsets_{0};  // [size() + 1], into arena_
  std::vector<std::uint32_t> slots_;       // a power of two; an id, or kFree
  std::vector<TokenKind> kinds_;           // by id, up to the last one that is not text
  std::size_t ranks_ = 0;
  std::size_t longest_ = 0;  // bytes of the longest mergeable token
  std::array<std::int32_t, 256> byte_tokens_{};
};

}  // namespace sluice::text
