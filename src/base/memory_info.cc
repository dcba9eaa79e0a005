#include "base/memory_info.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {
namespace {

/// The number of a "Key:   123 kB" line of a /proc file, in bytes.
std::optional<std::uint64_t> kib_line(const char* file, std::string_view key) {
  std::ifstream in(file);
  std::string word;
  while (in >> word) {
    std::uint64_t number = 0;
    if (word == key && in >> number) return number * 1024;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  if (in >> number) return number;  // "max" is no number: no limit
  return std::nullopt;
}

/// The total of the line "some avg10=0.00 avg60=0.00 avg300=0.00 total=123", in microseconds.
std::optional<std::uint64_t> total_stall(const std::filesystem::path& file) {
  constexpr std::string_view kTotal = "total=";
  std::ifstream in(file);
  for (std::string word; in >> word && word != "full";) {
    if (!word.starts_with(kTotal)) continue;
    std::uint64_t total = 0;
    const char* const end = word.data() + word.size();
    if (std::from_chars(word.data() + kTotal.size(), end, total).ec == std::errc()) return total;
  }
  return std::nullopt;
}

/// Page cache that the group can drop, in bytes: charged to it, but not in anybody's way.
std::uint64_t inactive_file(const std::filesystem::path& group, std::string_view key) {
  std::ifstream in(group / "memory.stat");
  std::string word;
  std::uint64_t number = 0;
  while (in >> word >> number) {
    if (word == key) return number;
  }
  return 0;
}

struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* cache;
};

/// The tightest of several groups, in bytes; the largest number where there is no limit.
struct GroupMemory {
  std::uint64_t room = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();

  void narrow(const GroupMemory& other) {
    room = std::min(room, other.room);
    limit = std::min(limit, other.limit);
  }
};

/// What `group` and its ancestors below `root` leave.
GroupMemory in_groups(std::filesystem::path group, const std::filesystem::path& root,
                      const GroupFiles& files) {
  GroupMemory memory;
  while (true) {
    const auto limit = number_in(group / files.limit);
    const auto usage = number_in(group / files.usage);
    if (limit && usage) {
      const std::uint64_t held = *usage - std::min(*usage, inactive_file(group, files.cache));
      memory.narrow({*limit - std::min(*limit, held), *limit});
    }
    if (group == root || !group.has_relative_path()) return memory;
    group = group.parent_path();
  }
}

GroupMemory cgroup_memory() {
  const std::filesystem::path mount = "/sys/fs/cgroup";
  GroupMemory memory;
  std::ifstream in("/proc/self/cgroup");  // lines "hierarchy:controllers:/path"
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(std::min(second + 2, line.size()));
    if (controllers.empty()) {
      const GroupFiles v2 = {"memory.max", "memory.current", "inactive_file"};
      for (const auto& root : {mount, mount / "unified"}) {
        memory.narrow(in_groups(root / path, root, v2));
      }
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      const GroupFiles v1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                             "total_inactive_file"};
      memory.narrow(in_groups(mount / "memory" / path, mount / "memory", v1));
      // Inside a container the group's own folder is the root of the mount.
      memory.narrow(in_groups(mount / "memory", mount / "memory", v1));
    }
  }
  return memory;
}

}  // namespace

std::uint64_t resident_memory() { return kib_line("/proc/self/status", "VmRSS:").value_or(0); }

std::uint64_t peak_resident_memory() { return kib_line("/proc/self/status", "VmHWM:").value_or(0); }

std::uint64_t available_memory() {
  const auto machine = kib_line("/proc/meminfo", "MemAvailable:");
  const std::uint64_t fallback = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                 static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) / 2;
  return std::min(machine.value_or(fallback), cgroup_memory().room);
}

double memory_stall_s() {
  std::string group;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::/")) group = line.substr(4);
  }
  const std::filesystem::path mount = "/sys/fs/cgroup";
  for (const auto& file :
       {mount / group / "memory.pressure", mount / "unified" / group / "memory.pressure",
        std::filesystem::path("/proc/pressure/memory")}) {
    if (const auto microseconds = total_stall(file)) {
      return static_cast<double>(*microseconds) * 1e-6;
    }
  }
  return 0;
}

std::uint64_t major_faults() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<std::uint64_t>(usage.ru_majflt);
}

bool is_untouched(const std::byte* memory, std::size_t bytes) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto is_there = [](std::uintptr_t address) {
    unsigned char state = 1;
    void* const start = reinterpret_cast<void*>(address / page * page);
    return ::mincore(start, page, &state) != 0 || (state & 1) != 0;
  };
  const auto first = reinterpret_cast<std::uintptr_t>(memory);
  return bytes > 0 && !(is_there(first) && is_there(first + bytes - 1));
}

std::uint64_t total_memory() { return kib_line("/proc/meminfo", "MemTotal:").value_or(0); }

std::optional<std::uint64_t> memory_limit() {
  const std::uint64_t limit = cgroup_memory().limit;
  // Version 1 says "no limit" with a number that no machine has.
  if (limit >= total_memory()) return std::nullopt;
  return limit;
}

}  // namespace sluice
