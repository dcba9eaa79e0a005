#include "server/drive_limits.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "engine/drive_speed.h"

namespace sluice::server {
namespace {

namespace fs = std::filesystem;

constexpr double kSeconds = 0.3;     // of each drive
constexpr std::uint64_t kShare = 4;  // of the memory

using FilesByDrive = std::map<std::uint64_t, std::vector<fs::path>>;

void add_file(const fs::path& path, FilesByDrive& drives) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0) drives[facts.st_dev].push_back(path);
}

/// A file, or all that are in a folder.
void add_files(const fs::path& path, FilesByDrive& drives) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return add_file(path, drives);
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    add_file(at->path(), drives);
  }
}

}  // namespace

std::vector<DriveLimit> measure_drive_limits(const engine::EngineOptions& options) {
  FilesByDrive drives;
  add_files(options.model, drives);
  for (const fs::path& folder : options.model_folders) add_files(folder, drives);
  engine::DriveTrial trial{.seconds = kSeconds};
  if (options.ram) {
    trial.extent_bytes = std::min(trial.extent_bytes, *options.ram / kShare / trial.in_flight);
  }
  std::vector<DriveLimit> limits;
  for (const auto& [device, files] : drives) {
    const engine::TrialFiles large = engine::TrialFiles::among(files);
    if (large.paths().empty()) continue;
    const auto speed = engine::measure_drive(large, trial);
    if (speed) limits.push_back({device, speed->bytes_per_s});
  }
  return limits;
}

std::optional<double> limit_of(const std::vector<DriveLimit>& limits, std::uint64_t device) {
  const auto found = std::ranges::find(limits, device, &DriveLimit::device);
  if (found == limits.end()) return std::nullopt;
  return found->bytes_per_s;
}

}  // namespace sluice::server
