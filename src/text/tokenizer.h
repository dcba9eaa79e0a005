// Text to token ids and back: of a tiktoken rank file with Kimi's split expression and special
// tokens by name (SPEC 9), or of what a TokenizerBuilder made of tokenizer.json or a GGUF file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "text/byte_pairs.h"
#include "text/chat_files.h"
#include "text/merges.h"
#include "text/normalizer.h"
#include "text/spellings.h"
#include "text/split.h"
#include "text/unknown_characters.h"
#include "text/vocabulary.h"

namespace sluice::text {

/// Immutable, so any number of threads may use one.
class Tokenizer {
 public:
  /// Ids behind the ranks that are special; those without a name spell `<|reserved_token_ID|>`.
  static constexpr std::size_t kSpecials = 256;

  /// What the spelling of a special token is in a text.
  enum class Special {
    as_text,     ///< text like any other: for all that users, tools and files bring. (Tokens that
                 ///< the model's makers meant for text are found in it: Gemma's <h1>.)
    as_control,  ///< the token itself, leftmost and longest: for trusted text only
  };

  /// Reads tiktoken.model, tokenizer_config.json and the chat template (read_chat_files()) in
  /// `folder`.
  /// Fails with ErrorKind::model_files, naming the file and the place.
  static Result<Tokenizer> load(const std::filesystem::path& folder);
  /// The same from the files' texts; the names are for messages.
  static Result<Tokenizer> parse(std::string_view ranks, std::string_view config,
                                 ChatFiles chat = {},
                                 std::string_view ranks_name = "tiktoken.model",
                                 std::string_view config_name = "tokenizer_config.json");

  /// The ids of a text. Nothing is put before or behind it. With `as_text` no id is special.
  /// `begins`: the text is the begin of all that the model sees, or follows one; some tokenizers
  /// put a space before that. Fails with ErrorKind::usage, naming the offset, if the text is not
  /// UTF-8: what a broken byte was meant to be, the user knows better.
  Result<std::vector<std::int32_t>> encode(std::string_view utf8, Special special,
                                           bool begins = true) const;

  /// encode() as text, with what the model wants to see before every text: a token that begins it,
  /// or nothing.
  Result<std::vector<std::int32_t>> encode_prompt(std::string_view utf8) const;
  const std::vector<std::int32_t>& prefix() const { return prefix_; }

  /// The model's own template of conversations (Jinja), or nothing.
  const std::string& chat_template() const { return chat_template_; }
  /// How the template spells the tokens that begin and end a text; empty if the model has none.
  const std::string& begin_spelling() const { return begin_; }
  const std::string& end_spelling() const { return end_; }

  /// The bytes of a token, for a special token its spelling. They may end inside a character.
  /// Empty if no token has this id.
  std::string_view bytes_of(std::int32_t id) const { return vocabulary_.bytes_of(id); }

  bool is_special(std::int32_t id) const {
    return id >= 0 && static_cast<std::size_t>(id) < vocabulary_.size() &&
           vocabulary_.kind_of(id) == TokenKind::marker;
  }
  /// The id of the token that spells `name` for `as_control`.
  std::optional<std::int32_t> special_id(std::string_view name) const {
    return controls_.find(name);
  }
  /// Whether no text becomes this token, but a template's spelling of it does.
  bool is_control(std::int32_t id) const;

  /// Number of ids, special ones included: ids are 0 .. vocabulary() - 1.
  std::size_t vocabulary() const { return vocabulary_.size(); }

  /// The most bytes of a text that one token stands for; nothing where that has no bound.
  std::optional<std::size_t> longest_token() const;

  /// The text of ids: their bytes joined, each invalid UTF-8 sequence replaced by U+FFFD; without
  /// the space that the tokenizer put before a text.
  std::string decode(std::span<const std::int32_t> ids) const;

  bool strips_first_space() const { return strips_first_space_; }
  /// The text of one token, as decode() has it behind others.
  std::string piece(std::int32_t id) const { return joined({&id, 1}); }

  std::uint64_t memory_bytes() const;

 private:
  using EncodePiece = FunctionRef<void(std::string_view)>;
  Tokenizer(Vocabulary vocabulary, Splitter splitter);
  friend class TokenizerBuilder;
  Status encode_slice(std::string_view slice, Special special, bool begins, EncodePiece encode,
                      std::vector<std::int32_t>& ids) const;
  Status encode_section(std::string_view section, bool begins, EncodePiece encode) const;
  std::string joined(std::span<const std::int32_t> ids) const;
  Status check_covered(std::string_view text) const;
  static Result<std::vector<std::string>> read_specials(std::string_view config,
                                                        std::string_view file, std::size_t first);

  Vocabulary vocabulary_;
  Normalizer normalizer_;
  Splitter splitter_;
  std::optional<MergeTable> merges_;          // by these,
  std::optional<ScoreRanks> scores_;          // or these; else by rank
  std::optional<UnknownCharacters> unknown_;  // of a vocabulary of characters, not bytes
  bool whole_pieces_ = false;
  bool marks_spaces_ = false;        // in a text, kSpaceSign stands for a space
  bool strips_first_space_ = false;  // of a decoded text
  std::vector<std::int32_t> prefix_;
  std::string chat_template_;
  std::string begin_, end_;
  Spellings controls_;  // that are looked for in trusted text
  Spellings typed_;     // in any text
};

}  // namespace sluice::text
