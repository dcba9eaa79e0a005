// What of a pack is written and brought to the drives, so that it can be gone on with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice::engine {

/// How the pack was begun; the same command must be given to go on.
struct PackPlan {
  std::string model;                 ///< absolute
  std::vector<std::string> folders;  ///< absolute, as asked for
  std::vector<std::string> parts;    ///< those that are dealt something, by part
  std::vector<std::uint8_t> deal;
  std::uint64_t chunk_bytes = 0;
  std::uint64_t identity = 0;  ///< pack_identity()
};

struct PackJournal {
  PackPlan plan;
  std::uint64_t blocks_written = 0;
  std::uint64_t blocks_verified = 0;
  std::vector<std::uint64_t> checksums;  ///< of the units of the blocks written
  std::uint64_t valid_bytes = 0;         ///< of the journal's file; what follows was not finished
};

/// The start of a journal.
std::vector<std::byte> encode_plan(const PackPlan& plan);

/// Records, each with its own checksum. All blocks before `blocks` are on the drives, and
/// `checksums` are those of the units since the last such record.
std::vector<std::byte> record_written(std::uint64_t blocks,
                                      std::span<const std::uint64_t> checksums);
/// All blocks before `blocks` were read back and are right.
std::vector<std::byte> record_verified(std::uint64_t blocks);
/// All blocks from `blocks` on, whose first unit is `unit`, must be written again.
std::vector<std::byte> record_rewind(std::uint64_t blocks, std::uint64_t unit);

/// A record that is cut off or wrong ends the journal: it was being written when the program
/// ended. ErrorKind::model_files when not even the plan can be read.
Result<PackJournal> decode_journal(std::span<const std::byte> bytes,
                                   const std::filesystem::path& path);

}  // namespace sluice::engine
