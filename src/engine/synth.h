// Checkpoints with K3's real widths in K3's real format, without K3's weights: to test a machine
// before a download of 1.56 TB.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/cancellation.h"
#include "base/function_ref.h"
#include "base/result.h"

namespace sluice::engine {

/// The defaults are the released model. Other numbers of layers, experts or ids make it smaller or
/// larger; the widths stay K3's.
struct SynthOptions {
  std::filesystem::path folder;
  int layers = 93;          ///< 2 to 999; layer 0 is dense, every 4th and the last are MLA
  int experts = 896;        ///< 1 to 9999 per layer; top-k is 16, or all of them if fewer
  int vocabulary = 163840;  ///< 512 to 1048576; the last 256 ids are the special ones
  std::uint64_t seed = 1;
  bool sparse = false;  ///< true headers and sizes, but holes for data: every weight is zero
};

/// What an option set makes (see also `sluice synth --help`).
struct SynthSize {
  std::uint64_t shards = 0;
  std::uint64_t tensors = 0;
  std::uint64_t payload_bytes = 0;  ///< sum of the tensors; `metadata.total_size` of the index
  std::uint64_t file_bytes = 0;     ///< sum of the shards' sizes
  std::uint64_t disk_bytes = 0;     ///< room on the drive, index included (little when sparse)
};

struct SynthProgress {
  std::string_view file;  ///< being written
  std::uint64_t shard = 0;
  std::uint64_t shards = 0;
  std::uint64_t bytes_done = 0;  ///< of SynthSize::file_bytes
  std::uint64_t bytes_total = 0;
};

/// Fails with ErrorKind::usage when an option is out of its range.
Result<SynthSize> synth_size(const SynthOptions& options);

/// Writes the checkpoint: shards, index, config.json, generation_config.json and a small working
/// tokenizer. The same options give the same bytes. Each file appears under its name only when
/// it is complete, so an interrupted run goes on where it stopped when started again.
/// `progress` is called about every 16 MiB and once per shard; `cancellation` may be null.
/// Fails with usage (options; a folder that holds anything else), drive (not enough room, a
/// write that failed) or interrupted.
Status synthesize_kimi_k3(const SynthOptions& options,
                          FunctionRef<void(const SynthProgress&)> progress,
                          const Cancellation* cancellation = nullptr);

}  // namespace sluice::engine
