// How a config.json or a GGUF file tells of rotary embeddings and their scalings.
#pragma once

#include "model/fields.h"
#include "model/metadata_reader.h"
#include "model/rope.h"

namespace sluice::model {

/// The object with a scaling's fields, all of which must be understood. `positions`: what the
/// config says that the model was made for. Returns what it is made for with the scaling.
std::size_t read_rope_scaling(Fields scaling, std::size_t positions, RopeConfig& rope);

/// rope_theta and rope_scaling, as transformers wrote them before its version 5; since then
/// rope_parameters. rope.base has what it is where nothing is said. Returns likewise.
std::size_t read_rope(Fields& fields, std::size_t positions, RopeConfig& rope);

/// The same of a GGUF file's metadata, for heads of rope.dim numbers.
void read_rope(MetadataReader& reader, std::size_t positions, RopeConfig& rope);

}  // namespace sluice::model
