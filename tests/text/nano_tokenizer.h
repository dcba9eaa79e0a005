// The tokenizer of k3-nano, read once.
#pragma once

#include "text/token_index.h"
#include "text/tokenizer.h"

namespace sluice::text {

inline const Tokenizer& tokenizer() {
  static const Tokenizer* const one =
      new Tokenizer(*Tokenizer::load(SLUICE_SOURCE_DIR "/models/k3-nano"));
  return *one;
}

inline const TokenIndex& token_index() {
  static const TokenIndex* const one = new TokenIndex(tokenizer());
  return *one;
}

}  // namespace sluice::text
