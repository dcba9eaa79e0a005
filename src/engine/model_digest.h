// What tells a model or an adapter from every other, for results that are only good for one.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/open_files.h"
#include "io/reader.h"
#include "kernels/matmul.h"
#include "model/adapter.h"

namespace sluice::engine {

/// A hash of what the bits of a sequence's state hang on: the configuration, every tensor's name,
/// dtype and shape, samples of the weights, the instruction set of the kernels, and what its keys
/// and values are rounded to. Where the files lie, and how the weights are spread over them, does
/// not matter. Fails as the reader does, and with ErrorKind::memory where `ram` bytes do not hold
/// one of a pack's blocks.
Result<std::uint64_t> model_digest(const OpenedFiles& files, io::Reader& reader,
                                   kernels::WeightFormat cache_format, std::uint64_t ram);

/// The same of an adapter: of its configuration, what its tensors are, and samples of them.
Result<std::uint64_t> adapter_digest(const model::AdapterLayout& adapter, io::Reader& reader);

}  // namespace sluice::engine
