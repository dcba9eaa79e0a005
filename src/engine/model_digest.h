// What tells a model from every other, for results that are only good for one.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/open_files.h"
#include "io/reader.h"

namespace sluice::engine {

/// A hash of what the bits of a sequence's state hang on: the configuration, every tensor's name,
/// dtype and shape, samples of the weights, and the instruction set of the kernels. Where the files
/// lie, and how the weights are spread over them, does not matter. Fails as the reader does.
Result<std::uint64_t> model_digest(const OpenedFiles& files, io::Reader& reader);

}  // namespace sluice::engine
