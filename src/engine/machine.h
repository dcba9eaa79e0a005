// What this machine is and allows, as far as it matters for speed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice::engine {

/// Processor cores that this process may use (its affinity).
int usable_cores();

struct Machine {
  std::string system;     ///< "Linux 6.1.0 x86_64"
  std::string processor;  ///< its name, or empty
  std::string kernels;    ///< instruction set that the kernels run on: "AVX3", "NEON", ...
  std::vector<std::string> instruction_sets;  ///< of vectors, that it has: the best first
  int cores = 1;                              ///< that are online
  int usable = 1;                             ///< usable_cores()
  std::optional<double> core_quota;           ///< of the control group, in cores
  std::uint64_t memory_bytes = 0;
  std::uint64_t available_bytes = 0;          ///< to this process
  std::optional<std::uint64_t> memory_limit;  ///< of the control group
  std::uint64_t swap_bytes = 0;
  std::string huge_pages;  ///< "always", "madvise", "never", or empty where the system has none
  std::optional<std::uint64_t> locked_limit;  ///< bytes (memlock); none: no limit
  std::optional<std::uint64_t> files_limit;   ///< open files; none: no limit
  std::string io_uring_refusal;               ///< why there is none; empty: there is
};
Machine look_at_machine();

/// The drive that a path lies on.
struct Volume {
  std::filesystem::path path;  ///< as asked
  std::string mount_point;
  std::string file_system;            ///< "ext4"
  std::string device;                 ///< "/dev/nvme0n1p2"
  std::optional<double> temperature;  ///< in Celsius; none: not known
  std::uint64_t bytes = 0;
  std::uint64_t free_bytes = 0;
};
/// Fails with ErrorKind::usage when there is no such path.
Result<Volume> look_at_volume(const std::filesystem::path& path);

/// Reads a block of the file past the page cache; why that does not work, or empty.
std::string direct_io_refusal(const std::filesystem::path& file);

/// What to change, one sentence each, most useful first. Empty: nothing.
std::vector<std::string> advice_for(const Machine& machine);

}  // namespace sluice::engine
