// What the mixtures of llama's kin say of their experts: mixtral, qwen3_moe, and llama in GGUF
// files.
#pragma once

#include "model/fields.h"
#include "model/llama_config.h"
#include "model/metadata_reader.h"

namespace sluice::model {

/// Of config.json, for a mixture's model_type; other families have nothing to read.
void read_mixture(Fields& fields, LlamaConfig& config);

/// The same of the metadata of a GGUF file. `is_mixture`: its tensors, or its architecture, say
/// that it has experts; then it must say how many.
void read_mixture(MetadataReader& reader, bool is_mixture, LlamaConfig& config);

}  // namespace sluice::model
