// Packs: a model's weights in the order of their use, aligned, dealt to several drives, with a
// checksum for every piece (docs/formats.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "base/cancellation.h"
#include "base/function_ref.h"
#include "base/result.h"
#include "engine/pack_output.h"
#include "io/make_reader.h"

namespace sluice::engine {

struct PackOptions {
  std::filesystem::path model;
  /// As EngineOptions::model_folders.
  std::vector<std::filesystem::path> model_folders = {};
  /// Where to write; the first one also gets the index and the small files.
  std::vector<std::filesystem::path> folders;
  /// By folder, only their ratios count. Empty: each folder's drive is measured.
  std::vector<double> speeds;
  std::uint64_t chunk_bytes = std::uint64_t{1} << 20;  ///< a multiple of 4096
  /// Bytes after which what is written is brought to the drives and noted in the journal.
  std::uint64_t sync_bytes = std::uint64_t{1} << 30;
  io::IoMode io = io::IoMode::automatic;

  /// For tests: something between the pack and the source's reader, or the files it writes.
  std::function<std::unique_ptr<io::Reader>(std::unique_ptr<io::Reader>)> wrap_reader = nullptr;
  std::function<std::unique_ptr<PackOutput>(std::unique_ptr<PackOutput>)> wrap_output = nullptr;
};

struct PackProgress {
  enum class Stage : std::uint8_t { writing, verifying };
  Stage stage = Stage::writing;
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_before = 0;  ///< of these, done by an earlier start of the command
  std::uint64_t bytes_total = 0;
};

struct PackSummary {
  std::vector<PackPart> parts;
  std::vector<std::filesystem::path> unused;  ///< too slow to be dealt a chunk
  std::uint64_t blocks = 0;
  std::uint64_t checksums = 0;
  std::uint64_t bytes = 0;       ///< of all parts
  bool was_there = false;        ///< the same pack was finished before; nothing was done
  std::uint64_t resumed_at = 0;  ///< bytes that an earlier start had written
};

/// Writes a pack of the model, or goes on with one that the same options began. Everything is read
/// back and compared before the index gets its name; until then no command takes the folder for a
/// model. However it ends, starting it again ends in the same bytes.
///
/// Fails with usage (folders that hold something else, that lie in the model, that another pack is
/// writing to at the moment, other options than the pack was begun with), model_files (the model;
/// or it has changed since), drive (not enough room, a read or write that failed, bytes that came
/// back wrong) or interrupted.
Result<PackSummary> pack(const PackOptions& options,
                         FunctionRef<void(const PackProgress&)> progress,
                         const Cancellation* cancellation = nullptr);

}  // namespace sluice::engine
