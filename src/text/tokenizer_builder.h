// Making a byte-level BPE tokenizer of tokens and merges, whichever file they come from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/merges.h"
#include "text/pre_tokenizers.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace sluice::text {

/// First all tokens by ascending id, then all merges by rank, then finish(). Every fault is
/// ErrorKind::model_files and names the file.
class TokenizerBuilder {
 public:
  explicit TokenizerBuilder(std::string file) : file_(std::move(file)) {}

  /// A token of the vocabulary, written in the byte-level alphabet.
  Status add_token(std::string_view written);
  /// A token that no text becomes: a marker, or an id that is not in use.
  Status add_special(std::string_view spelling);

  /// Between tokens and merges. `merges`: how many will come at most.
  Status begin_merges(std::size_t merges);
  /// Two tokens, written in the byte-level alphabet.
  Status add_merge(std::string_view left, std::string_view right);
  /// "left right"
  Status add_merge(std::string_view pair);

  struct Extras {
    std::vector<std::int32_t> prefix;  ///< Tokenizer::prefix()
    std::string chat_template;         ///< Tokenizer::chat_template()
    std::string begin, end;            ///< Tokenizer::begin_spelling(), end_spelling()
    bool composed = false;             ///< text is brought into form C (NFC) first
  };
  Result<Tokenizer> finish(const PreTokenizer& pre_tokenizer, Extras extras);

  std::size_t tokens() const { return vocabulary_.size(); }

 private:
  std::string file_;
  Vocabulary vocabulary_;
  MergeTable merges_;
  std::size_t merges_seen_ = 0;
  std::size_t most_merges_ = 0;
};

}  // namespace sluice::text
