#include "io/drive_temperature.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

namespace sluice::io {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLevels = 8;  // of volumes upon volumes

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(at->path());
  }
  return entries;
}

/// The first sensor of a hwmon folder: of the drive as a whole; the others are of its chips.
std::optional<double> read_sensor(const fs::path& hwmon) {
  std::ifstream in(hwmon / "temp1_input");
  double thousandths = 0;
  if (!(in >> thousandths)) return std::nullopt;
  return thousandths / 1000;
}

/// Kernels differ in whether a device has hwmon3/ or hwmon/hwmon3/.
std::optional<double> sensor_below(const fs::path& device) {
  for (const fs::path& folder : {device, device / "hwmon"}) {
    for (const fs::path& entry : entries_of(folder)) {
      if (!entry.filename().string().starts_with("hwmon")) continue;
      if (const auto degrees = read_sensor(entry)) return degrees;
    }
  }
  return std::nullopt;
}

/// `block` is a folder of a disk, a partition or a volume.
std::optional<double> temperature_of(const fs::path& block, int levels) {
  std::error_code error;
  const fs::path disk = fs::exists(block / "partition", error) ? block.parent_path() : block;
  if (const auto degrees = sensor_below(disk / "device")) return degrees;
  std::optional<double> hottest;
  if (levels == 0) return hottest;
  for (const fs::path& slave : entries_of(disk / "slaves")) {
    const fs::path real = fs::canonical(slave, error);
    const auto degrees = error ? std::nullopt : temperature_of(real, levels - 1);
    if (degrees) hottest = std::max(hottest.value_or(*degrees), *degrees);
  }
  return hottest;
}

}  // namespace

std::optional<double> drive_temperature(std::uint64_t device, const fs::path& system) {
  const std::string numbers =
      std::to_string(gnu_dev_major(device)) + ":" + std::to_string(gnu_dev_minor(device));
  std::error_code error;
  const fs::path block = fs::canonical(system / "dev" / "block" / numbers, error);
  if (error) return std::nullopt;
  return temperature_of(block, kMostLevels);
}

}  // namespace sluice::io
