// What the mixtures of llama's kin say of their experts: mixtral, qwen3_moe, and llama in GGUF
// files.
#pragma once

#include "model/fields.h"
#include "model/llama_config.h"
#include "model/metadata_reader.h"

namespace sluice::model {

/// Of config.json, for a mixture's model_type; other families have nothing to read.
void read_mixture(Fields& fields, LlamaConfig& config);

/// The same of the metadata of a GGUF file, where it has experts.
void read_mixture(MetadataReader& reader, LlamaConfig& config);

}  // namespace sluice::model
