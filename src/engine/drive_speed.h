// How fast a drive is at what Sluice does with it: random extents as large as an expert.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/make_reader.h"

namespace sluice::engine {

/// Files to read for a measurement.
class TrialFiles {
 public:
  /// `path` is a file, or a folder with files: those that are large enough to say something. Where
  /// there are none, a temporary file of `temporary_bytes` is written into the folder; it has no
  /// name, so nothing of it is left whatever happens. Fails as check() does, or with
  /// ErrorKind::drive when the temporary file cannot be written.
  static Result<TrialFiles> find(const std::filesystem::path& path,
                                 std::uint64_t temporary_bytes = std::uint64_t{256} << 20);
  /// Fails with ErrorKind::usage when there is no such path, or when it is neither a file nor a
  /// folder: what lies beside a device (/dev/nvme0n1) is in memory, not on it.
  static Status check(const std::filesystem::path& path);
  /// Of these files those that are large enough and have data: not the holes of sparse ones.
  static TrialFiles among(const std::vector<std::filesystem::path>& files);

  TrialFiles(TrialFiles&& other) noexcept;
  TrialFiles& operator=(TrialFiles&& other) noexcept;
  ~TrialFiles();

  const std::vector<std::filesystem::path>& paths() const { return paths_; }
  bool is_temporary() const { return descriptor_ >= 0; }

 private:
  TrialFiles() = default;
  Status write_temporary(const std::filesystem::path& folder, std::uint64_t bytes);

  std::vector<std::filesystem::path> paths_;
  int descriptor_ = -1;  // of the temporary file
};

struct DriveTrial {
  io::IoMode mode = io::IoMode::automatic;
  std::uint64_t extent_bytes = 17'547'264;  ///< K3's expert
  std::size_t in_flight = 6;                ///< extents under way at a time
  double seconds = 0.5;
};

struct DriveSpeed {
  double bytes_per_s = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
  double cpu_s = 0;     ///< of the whole process
  bool direct = false;  ///< past the page cache
};

/// Reads random extents of the files through a reader of its own. Takes in_flight extents of
/// memory. An extent is at most a quarter of the smallest file.
Result<DriveSpeed> measure_drive(const TrialFiles& files, const DriveTrial& trial);

}  // namespace sluice::engine
