// How hot a drive is, where the system tells.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace sluice::io {

/// Degrees Celsius of the drive behind an st_dev: what its sensor says in hwmon (NVMe by itself,
/// SATA with the kernel module drivetemp), of several drives under one volume (LVM, RAID) the
/// hottest. Nothing where that cannot be read: virtual drives, network, btrfs. `system` is where
/// sysfs is mounted.
std::optional<double> drive_temperature(std::uint64_t device,
                                        const std::filesystem::path& system = "/sys");

}  // namespace sluice::io
