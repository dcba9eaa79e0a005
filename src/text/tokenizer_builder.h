// Making a BPE tokenizer of tokens and merges or scores, whichever file they come from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/merges.h"
#include "text/normalizer.h"
#include "text/pre_tokenizers.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace sluice::text {

/// First all tokens by ascending id, then all merges by rank or all scores, then finish(). Every
/// fault is ErrorKind::model_files and names the file.
class TokenizerBuilder {
 public:
  /// How tokens are written.
  enum class Alphabet {
    bytes,       ///< in the byte-level alphabet
    characters,  ///< as they are, with kSpaceSign for a space (SentencePiece)
  };
  TokenizerBuilder(std::string file, Alphabet alphabet)
      : file_(std::move(file)), alphabet_(alphabet) {}

  /// A token of the vocabulary.
  Status add_token(std::string_view written);
  /// A token for a byte of a character that is no token, "<0x0A>". Alphabet::characters only.
  Status add_byte(std::string_view written);
  /// A token for all that is no token.
  Status add_unknown(std::string_view spelling);
  /// A token that no text becomes: a marker, or an id that is not in use.
  Status add_special(std::string_view spelling);
  /// A token that its makers call text, but that is found by its spelling, before anything else.
  /// `in_vocabulary`: merges may make it too. If it has the form of a marker (<|...|>), or the chat
  /// template writes it (white space aside), it is one: no typed text becomes it.
  Status add_named(std::string_view spelling, bool in_vocabulary);

  /// Between tokens and merges. `merges`: how many will come at most.
  Status begin_merges(std::size_t merges);
  /// Two tokens, written in the alphabet.
  Status add_merge(std::string_view left, std::string_view right);
  /// "left right"
  Status add_merge(std::string_view pair);

  /// After the tokens, instead of merges: any two parts that make a token may be merged, the one
  /// with the highest score first. One for each token.
  Status add_scores(std::span<const float> scores);

  struct Extras {
    std::vector<std::int32_t> prefix;  ///< Tokenizer::prefix()
    std::string chat_template;         ///< Tokenizer::chat_template()
    std::string begin, end;            ///< Tokenizer::begin_spelling(), end_spelling()
    Normalizer normalizer;             ///< what is done to a text first
    bool fused_unknown = true;         ///< UnknownCharacters::fused
    bool strips_first_space = false;   ///< of a decoded text
  };
  Result<Tokenizer> finish(const PreTokenizer& pre_tokenizer, Extras extras);

  std::size_t tokens() const { return vocabulary_.size(); }

 private:
  struct Named {
    std::string spelling;
    std::int32_t id;
    bool special;
  };
  Status append(std::string_view bytes, TokenKind kind);
  std::optional<std::string> bytes_of(std::string_view written) const;
  Status index_spellings(Tokenizer& tokenizer) const;

  std::string file_;
  Alphabet alphabet_;
  Vocabulary vocabulary_;
  UnknownCharacters unknown_;
  std::vector<Named> named_;
  std::optional<ScoreRanks> scores_;
  MergeTable merges_;
  std::size_t merges_seen_ = 0;
  std::size_t most_merges_ = 0;
};

}  // namespace sluice::text
