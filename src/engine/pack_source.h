// The model that a pack is made from.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/pack.h"
#include "engine/pack_layout.h"
#include "io/reader.h"
#include "store/checkpoint.h"
#include "store/pack_index.h"

namespace sluice::engine {

/// The model to pack, and the order of its tensors.
struct PackSource {
  std::optional<store::Checkpoint> checkpoint;
  std::unique_ptr<io::Reader> reader;
  PackLayout layout;
  std::vector<store::PackCompanion> companions;
};

/// ErrorKind::usage for models that cannot be packed: GGUF files, and experts that share tensors.
Result<PackSource> open_pack_source(const PackOptions& options);

}  // namespace sluice::engine
