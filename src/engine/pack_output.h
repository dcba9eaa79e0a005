// Where a pack is written to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

namespace sluice::engine {

/// The writes of a pack, behind one interface so that tests can end them anywhere. Failures are
/// ErrorKind::drive and name the file.
class PackOutput {
 public:
  virtual ~PackOutput() = default;
  /// Puts bytes at `offset` of a part's file.
  virtual Status write(std::size_t part, std::uint64_t offset,
                       std::span<const std::byte> bytes) = 0;
  /// Returns when everything written to the parts is on the drives.
  virtual Status sync() = 0;
  /// Adds a record to the journal, and returns when it is on the drive.
  virtual Status append(std::span<const std::byte> record) = 0;
  /// Gives the index its name, all of it on the drive, and then takes the journal away.
  virtual Status publish(std::span<const std::byte> index) = 0;
};

struct PackPart {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
};

/// Opens the parts' files, making those that are missing as long as they will be, with their room
/// taken where the file system can do that. `folder` has the index and the journal, of whose bytes
/// `journal_bytes` are kept.
Result<std::unique_ptr<PackOutput>> open_pack_output(const std::filesystem::path& folder,
                                                     const std::vector<PackPart>& parts,
                                                     std::uint64_t journal_bytes);

/// Writes a file under its name at once and for good: after it returns, a loss of power leaves it.
Status write_for_good(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// Fails with ErrorKind::drive when a drive has no room for what its parts still need.
Status check_room(const std::vector<PackPart>& parts, const std::filesystem::path& folder,
                  std::uint64_t more_in_folder);

}  // namespace sluice::engine
