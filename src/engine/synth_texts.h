// The small files of a synthetic checkpoint: config and tokenizer.
#pragma once

#include <string>

#include "engine/synth.h"

namespace sluice::engine {

/// config.json with all keys of the release; with the default options, its very bytes.
std::string synth_config(const SynthOptions& options);

/// generation_config.json
std::string synth_generation_config(const SynthOptions& options);

/// tokenizer_config.json: K3's special tokens, at the end of the vocabulary.
std::string synth_tokenizer_config(const SynthOptions& options);

/// tiktoken.model: the single bytes in the release's order, then pairs and triples of bytes, those
/// of common letters first. Encodes and decodes any text; its merges mean nothing.
std::string synth_ranks(const SynthOptions& options);

}  // namespace sluice::engine
