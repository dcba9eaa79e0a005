// Token ids to text while they come.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace sluice::text {

/// Gives out the text of a stream of ids as early as it is certain. The texts of push() and
/// finish() joined are Tokenizer::decode() of all ids: an unfinished character is held back, and
/// becomes one U+FFFD if nothing completes it.
class Detokenizer {
 public:
  /// The tokenizer must outlive the object.
  explicit Detokenizer(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  /// The text that is certain after one more id. A special id gives its spelling.
  std::string push(std::int32_t id) { return stream_.push(tokenizer_->bytes_of(id)); }
  /// The rest, at the end of the ids.
  std::string finish() { return stream_.finish(); }

 private:
  const Tokenizer* tokenizer_;
  Utf8Stream stream_;
};

}  // namespace sluice::text
