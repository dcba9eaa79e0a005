#include "engine/machine.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/memory_info.h"
#include "base/size.h"
#include "io/drive_temperature.h"
#include "io/file.h"
#include "io/ring.h"
#include "io/ring_engine.h"
#include "kernels/simd_targets.h"

namespace sluice::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kWantedFiles = 512;  // K3 has 96 shards, each may be open twice

std::string system_name() {
  utsname names{};
  if (::uname(&names) != 0) return "";
  return fmt::format("{} {} {}", names.sysname, names.release, names.machine);
}

/// The rest of the first line "key<blanks>: value" of a file, or empty.
std::string value_of(const char* file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const auto colon = line.find(':');
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    if (colon != std::string::npos && begin != std::string::npos) return line.substr(begin);
  }
  return "";
}

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Of "always [madvise] never" the word in brackets.
std::string chosen_word(const std::string& line) {
  const auto open = line.find('[');
  const auto close = line.find(']', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return "";
  return line.substr(open + 1, close - open - 1);
}

/// Cores' worth of time that the control group allows: cpu.max (version 2) or the quota of
/// version 1.
std::optional<double> core_quota() {
  std::string group;
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::/")) group = line.substr(4);
  }
  double quota = 0;
  double period = 0;
  for (const fs::path& folder : {fs::path("/sys/fs/cgroup") / group, fs::path("/sys/fs/cgroup")}) {
    std::istringstream v2(first_line(folder / "cpu.max"));
    if (v2 >> quota >> period && period > 0) return quota / period;
  }
  const fs::path v1 = "/sys/fs/cgroup/cpu";
  if (std::istringstream(first_line(v1 / "cpu.cfs_quota_us")) >> quota &&
      std::istringstream(first_line(v1 / "cpu.cfs_period_us")) >> period && quota > 0 &&
      period > 0) {
    return quota / period;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> limit_of(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return std::nullopt;
  if (limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

std::string io_uring_refusal() {
  int error = 0;
  if (io::make_kernel_ring(io::kRingEntries, error) != nullptr) return "";
  std::string why = io::error_text(error < 0 ? -error : error);
  switch (error < 0 ? -error : error) {
    case ENOSYS:
      return why + ": the kernel is older than 5.1, built without it, or a container hides it";
    case EPERM:
    case EACCES: {
      const std::string off = first_line("/proc/sys/kernel/io_uring_disabled");
      if (off == "1" || off == "2") return why + ": kernel.io_uring_disabled is " + off;
      return why + ": a container's seccomp profile or a security module forbids it";
    }
    case ENOMEM:
      return why + ": the limit of locked memory (ulimit -l) is too small";
    default:
      return why;
  }
}

/// "\040" and the like in mountinfo stand for blanks.
std::string unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool octal = text[i] == '\\' && i + 3 < text.size() &&
                       std::all_of(text.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                   text.begin() + static_cast<std::ptrdiff_t>(i) + 4,
                                   [](char c) { return c >= '0' && c <= '7'; });
    if (octal) {
      out += static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool lies_in(const std::string& path, const std::string& mount) {
  return mount == "/" || path == mount || path.starts_with(mount + "/");
}

/// Fills in mount point, file system and device from the longest mount point that fits.
void find_mount(const std::string& path, Volume& volume) {
  std::ifstream in("/proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    // id parent major:minor root mount-point options ... - type source options
    std::istringstream words(line);
    std::string skip;
    std::string mount;
    words >> skip >> skip >> skip >> skip >> mount;
    mount = unescaped(mount);
    if (!lies_in(path, mount) || mount.size() < volume.mount_point.size()) continue;
    const auto rest = line.find(" - ");
    if (rest == std::string::npos) continue;
    std::istringstream tail(line.substr(rest + 3));
    volume.mount_point = mount;
    tail >> volume.file_system >> volume.device;
    volume.device = unescaped(volume.device);
  }
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

Machine look_at_machine() {
  Machine machine;
  machine.system = system_name();
  machine.processor = value_of("/proc/cpuinfo", "model name");
  machine.kernels = kernels::simd_target();
  machine.instruction_sets = kernels::instruction_sets();
  machine.cores = std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  machine.usable = usable_cores();
  machine.core_quota = core_quota();
  machine.memory_bytes = total_memory();
  machine.available_bytes = available_memory();
  machine.memory_limit = memory_limit();
  std::uint64_t swap_kib = 0;
  std::istringstream(value_of("/proc/meminfo", "SwapTotal")) >> swap_kib;
  machine.swap_bytes = swap_kib * 1024;
  machine.huge_pages = chosen_word(first_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  machine.locked_limit = limit_of(RLIMIT_MEMLOCK);
  machine.files_limit = limit_of(RLIMIT_NOFILE);
  machine.io_uring_refusal = io_uring_refusal();
  return machine;
}

Result<Volume> look_at_volume(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) {
    return fail(ErrorKind::usage, "{}: there is no such file or folder ({})", path.string(),
                error.message());
  }
  Volume volume;
  volume.path = path;
  find_mount(real.string(), volume);
  struct stat status {};
  if (::stat(real.c_str(), &status) == 0) {
    volume.temperature = io::drive_temperature(status.st_dev);
  }
  struct statvfs facts {};
  if (::statvfs(real.c_str(), &facts) == 0) {
    volume.bytes = static_cast<std::uint64_t>(facts.f_blocks) * facts.f_frsize;
    volume.free_bytes = static_cast<std::uint64_t>(facts.f_bavail) * facts.f_frsize;
  }
  return volume;
}

std::string direct_io_refusal(const fs::path& file) {
  constexpr std::size_t kBlock = 4096;
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return io::error_text(errno);
  alignas(kBlock) std::array<std::byte, kBlock> block;
  const ssize_t got = ::pread(descriptor, block.data(), kBlock, 0);
  const int code = errno;
  ::close(descriptor);
  return got < 0 ? io::error_text(code) : "";
}

std::vector<std::string> advice_for(const Machine& machine) {
  std::vector<std::string> advice;
  if (!machine.io_uring_refusal.empty()) {
    advice.emplace_back(
        "io_uring is refused, so a pool of threads reads instead: allow io_uring_setup, _enter and "
        "_register in the container's seccomp profile, or set kernel.io_uring_disabled to 0");
  }
  if (machine.huge_pages == "never") {
    advice.emplace_back(
        "huge pages are off, which slows reads and kernels: write madvise to "
        "/sys/kernel/mm/transparent_hugepage/enabled");
  }
  if (machine.memory_limit && *machine.memory_limit < machine.memory_bytes / 2) {
    advice.emplace_back(
        fmt::format("the control group allows {} of the machine's {}: a higher limit saves reads",
                    format_size(*machine.memory_limit), format_size(machine.memory_bytes)));
  }
  if (machine.usable < machine.cores) {
    advice.emplace_back(fmt::format("the process may use {} of {} cores (its affinity)",
                                    machine.usable, machine.cores));
  }
  if (machine.core_quota && *machine.core_quota < machine.usable) {
    advice.emplace_back(fmt::format(
        "the control group allows the time of {:.1f} cores: --threads above that gains nothing",
        *machine.core_quota));
  }
  if (machine.files_limit && *machine.files_limit < kWantedFiles) {
    advice.emplace_back(fmt::format("{} files may be open (ulimit -n): raise it to {}",
                                    *machine.files_limit, kWantedFiles));
  }
  if (machine.kernels == "EMU128" || machine.kernels == "SCALAR") {
    advice.emplace_back("the processor has no vector instructions that the kernels know");
  }
  return advice;
}

}  // namespace sluice::engine
