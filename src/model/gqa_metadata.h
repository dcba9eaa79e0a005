// What a GGUF file says of grouped-query attention.
#pragma once

#include "model/gqa.h"
#include "model/metadata_reader.h"
#include "store/checkpoint.h"

namespace sluice::model {

/// Numbers of heads and their size from the metadata, and from the first layer's tensors which of
/// them have biases and norms.
void read_gqa(MetadataReader& reader, const store::Checkpoint& checkpoint, std::size_t hidden,
              GqaConfig& attention);

}  // namespace sluice::model
