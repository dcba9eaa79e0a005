// Text to token ids and back: of a tiktoken rank file with Kimi's split expression and special
// tokens by name (SPEC 9), or of a byte-level BPE vocabulary with merges (TokenizerBuilder).
#pragma once

#include <array>
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
#include "text/merges.h"
#include "text/split.h"
#include "text/vocabulary.h"

namespace sluice::text {

/// Immutable, so any number of threads may use one.
class Tokenizer {
 public:
  /// Ids behind the ranks that are special; those without a name spell `<|reserved_token_ID|>`.
  static constexpr std::size_t kSpecials = 256;

  /// What the spelling of a special token is in a text.
  enum class Special {
    as_text,     ///< text like any other: for all that users, tools and files bring
    as_control,  ///< the token itself, leftmost and longest: for trusted text only
  };

  /// Reads tiktoken.model and tokenizer_config.json in `folder`.
  /// Fails with ErrorKind::model_files, naming the file and the place.
  static Result<Tokenizer> load(const std::filesystem::path& folder);
  /// The same from the files' texts; the names are for messages.
  static Result<Tokenizer> parse(std::string_view ranks, std::string_view config,
                                 std::string_view ranks_name = "tiktoken.model",
                                 std::string_view config_name = "tokenizer_config.json");

  /// The ids of a text. Nothing is put before or behind it. With `as_text` no id is special.
  /// Fails with ErrorKind::usage, naming the offset, if the text is not UTF-8: what a broken byte
  /// was meant to be, the user knows better.
  Result<std::vector<std::int32_t>> encode(std::string_view utf8, Special special) const;

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
           !vocabulary_.is_ordinary(id);
  }
  /// The id of the special token that spells `name`.
  std::optional<std::int32_t> special_id(std::string_view name) const;

  /// Number of ids, special ones included: ids are 0 .. vocabulary() - 1.
  std::size_t vocabulary() const { return vocabulary_.size(); }

  /// The text of ids: their bytes joined, each invalid UTF-8 sequence replaced by U+FFFD.
  std::string decode(std::span<const std::int32_t> ids) const;

  std::uint64_t memory_bytes() const;

 private:
  struct Occurrence {
    std::size_t at;
    std::size_t size;
    std::int32_t id;
  };
  Tokenizer(Vocabulary vocabulary, Splitter splitter);
  friend class TokenizerBuilder;
  Result<std::vector<std::int32_t>> encode_slices(std::string_view utf8, Special special) const;
  Status check_bytes(std::string_view utf8) const;
  Status encode_slice(std::string_view slice, Special special,
                      FunctionRef<Status(std::string_view)> encode_ordinary,
                      std::vector<std::int32_t>& ids) const;
  static Result<std::vector<std::string>> read_specials(std::string_view config,
                                                        std::string_view file, std::size_t first);
  Status index_specials(std::string_view file);
  std::optional<Occurrence> find_special(std::string_view text, std::size_t from) const;

  Vocabulary vocabulary_;
  Splitter splitter_;
  std::optional<MergeTable> merges_;  // by these; else by rank
  bool whole_pieces_ = false;
  bool composed_ = false;
  std::vector<std::int32_t> prefix_;
  std::string chat_template_;
  std::string begin_, end_;
  std::vector<std::int32_t> specials_;      // sorted by spelling
  std::vector<std::size_t> special_sizes_;  // the different lengths of spellings, longest first
  std::array<bool, 256> special_starts_{};  // first bytes of spellings
};

}  // namespace sluice::text
