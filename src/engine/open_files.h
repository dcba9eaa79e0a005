// Opening the files of a model for reading, with their copies.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "base/result.h"
#include "io/reader.h"
#include "store/checkpoint.h"
#include "store/pack_reader.h"

namespace sluice::engine {

struct OpenedFiles {
  store::Checkpoint checkpoint;
  std::vector<io::FileId> ids;  ///< by store::Tensor::file
};

/// Opens the checkpoint at `path`, its weight files being there or in the `further` folders, and
/// each of its files with `reader`. Where files have copies, `reader` becomes one that shares the
/// reads among them; for a pack, one that knows its stream. Fails as Checkpoint::open() and
/// Reader::open() do, and when a pack's small files are not what they were. `most_bounce`: as
/// make_pack_reader() has it.
Result<OpenedFiles> open_files(const std::filesystem::path& path,
                               const std::vector<std::filesystem::path>& further,
                               std::unique_ptr<io::Reader>& reader,
                               std::uint64_t most_bounce = store::kMostBounce);

}  // namespace sluice::engine
