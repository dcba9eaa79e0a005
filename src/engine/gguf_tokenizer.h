// The tokenizer inside a GGUF file.
#pragma once

#include "base/result.h"
#include "store/metadata.h"
#include "text/tokenizer.h"

namespace sluice::engine {

/// Whether there is one, of whatever kind.
bool has_gguf_tokenizer(const store::Metadata& metadata);

/// Of the kinds gpt2 (byte-level BPE, cut as tokenizer.ggml.pre says) and llama (SentencePiece's
/// BPE by scores, Gemma's too). ErrorKind::model_files, naming the key, for all that is wrong or of
/// another kind.
Result<text::Tokenizer> read_gguf_tokenizer(const store::Metadata& metadata);

}  // namespace sluice::engine
