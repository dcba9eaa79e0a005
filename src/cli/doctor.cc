// sluice doctor: what this machine offers, what is missing, and what to change.
#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/size.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/words.h"
#include "engine/drive_speed.h"
#include "engine/machine.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double kSlowDrive = 1e9;

/// Of these the files are in memory.
constexpr std::array<std::string_view, 3> kMemoryFileSystems = {"tmpfs", "ramfs", "devtmpfs"};

/// A drive with what was tried on it.
struct Examined {
  engine::Volume volume;
  bool is_tried = false;
  std::string direct_refusal;  ///< empty: direct I/O works
  std::string failure;         ///< why nothing could be tried
  std::optional<engine::DriveSpeed> speed;
};

Result<Examined> examine(const fs::path& path, bool measure) {
  SLUICE_TRY(engine::TrialFiles::check(path));
  Examined drive;
  SLUICE_ASSIGN(drive.volume, engine::look_at_volume(path));
  constexpr std::uint64_t kSmall = std::uint64_t{4} << 20;  // enough to try one block
  constexpr std::uint64_t kLarge = std::uint64_t{256} << 20;
  const auto files = engine::TrialFiles::find(path, measure ? kLarge : kSmall);
  if (!files) {
    drive.failure = files.error().message;
    return drive;
  }
  drive.is_tried = true;
  drive.direct_refusal = engine::direct_io_refusal(files->paths().front());
  if (!measure) return drive;
  const auto speed = engine::measure_drive(*files, {});
  if (speed) {
    drive.speed = *speed;
  } else {
    drive.failure = speed.error().message;
  }
  return drive;
}

std::vector<std::string> advice_for(const Examined& drive) {
  std::vector<std::string> advice;
  const std::string name = drive.volume.path.string();
  if (!drive.failure.empty()) advice.push_back(drive.failure);
  if (std::ranges::find(kMemoryFileSystems, drive.volume.file_system) != kMemoryFileSystems.end()) {
    advice.push_back(fmt::format(
        "{}: {} is memory, no drive: what lies there takes from what the model may have", name,
        drive.volume.file_system));
  }
  if (drive.is_tried && !drive.direct_refusal.empty()) {
    advice.push_back(fmt::format(
        "{}: {} refuses direct I/O ({}), so reads go through the page cache: keep the model on "
        "ext4, xfs or btrfs",
        name, drive.volume.file_system, drive.direct_refusal));
  }
  if (drive.speed && drive.speed->bytes_per_s < kSlowDrive) {
    advice.push_back(fmt::format(
        "{}: {:.2f} GB/s is slow: an NVMe drive gives 3 to 14; look at its temperature and at the "
        "port it is in",
        name, drive.speed->bytes_per_s / 1e9));
  }
  return advice;
}

Json json_of(const engine::Machine& machine) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"system", machine.system},
          {"processor", machine.processor},
          {"kernels", machine.kernels},
          {"instruction_sets", machine.instruction_sets},
          {"cores", machine.cores},
          {"usable_cores", machine.usable},
          {"core_quota", or_null(machine.core_quota)},
          {"memory_bytes", machine.memory_bytes},
          {"available_bytes", machine.available_bytes},
          {"memory_limit_bytes", or_null(machine.memory_limit)},
          {"swap_bytes", machine.swap_bytes},
          {"huge_pages", machine.huge_pages},
          {"locked_limit_bytes", or_null(machine.locked_limit)},
          {"files_limit", or_null(machine.files_limit)},
          {"io_uring", machine.io_uring_refusal.empty()},
          {"io_uring_refusal", machine.io_uring_refusal}};
}

Json json_of(const Examined& drive) {
  Json out = {{"path", drive.volume.path.string()},
              {"mount_point", drive.volume.mount_point},
              {"file_system", drive.volume.file_system},
              {"device", drive.volume.device},
              {"temperature_c", nullptr},
              {"bytes", drive.volume.bytes},
              {"free_bytes", drive.volume.free_bytes}};
  if (drive.volume.temperature) out["temperature_c"] = *drive.volume.temperature;
  if (drive.is_tried) {
    out["direct_io"] = drive.direct_refusal.empty();
    out["direct_io_refusal"] = drive.direct_refusal;
  }
  if (drive.speed) out["bytes_per_s"] = drive.speed->bytes_per_s;
  if (!drive.failure.empty()) out["failure"] = drive.failure;
  return out;
}

std::string line(std::string_view name, const std::string& value) {
  return fmt::format("{:<16}{}\n", name, value);
}

std::string limit_text(const std::optional<std::uint64_t>& limit, bool is_size) {
  if (!limit) return "no limit";
  return is_size ? format_size(*limit) : grouped(*limit);
}

std::string text_of(const engine::Machine& machine) {
  std::string text = line("system", machine.system);
  text += line("processor", fmt::format("{}{} of {} cores usable; kernels run on {}, of {}",
                                        machine.processor.empty() ? "" : machine.processor + ", ",
                                        machine.usable, machine.cores, machine.kernels,
                                        fmt::join(machine.instruction_sets, ", ")));
  if (machine.core_quota) {
    text += line("", fmt::format("the control group allows {:.1f} cores", *machine.core_quota));
  }
  text += line("memory",
               fmt::format("{}, {} available to this process, swap {}",
                           format_size(machine.memory_bytes), format_size(machine.available_bytes),
                           machine.swap_bytes == 0 ? "none" : format_size(machine.swap_bytes)));
  text +=
      line("control group", machine.memory_limit ? format_size(*machine.memory_limit) + " of memory"
                                                 : "no memory limit");
  text += line("huge pages", machine.huge_pages.empty() ? "none" : machine.huge_pages);
  text += line("io_uring",
               machine.io_uring_refusal.empty() ? "works" : "refused: " + machine.io_uring_refusal);
  return text + line("limits", fmt::format("locked memory {}, open files {}",
                                           limit_text(machine.locked_limit, true),
                                           limit_text(machine.files_limit, false)));
}

std::string text_of(const Examined& drive) {
  const engine::Volume& volume = drive.volume;
  std::string text =
      line("drive", fmt::format("{}: {} on {}, mounted at {}, {} free of {}", volume.path.string(),
                                volume.file_system, volume.device, volume.mount_point,
                                format_size(volume.free_bytes), format_size(volume.bytes)));
  text += line("", volume.temperature ? fmt::format("{:.0f} C", *volume.temperature)
                                      : "temperature unknown: no sensor that the system shows");
  if (!drive.is_tried) return text + line("", "could not be tried");
  text += line("", drive.direct_refusal.empty() ? "direct I/O works"
                                                : "direct I/O refused: " + drive.direct_refusal);
  if (!drive.speed) return text;
  return text + line("", fmt::format("random reads of experts: {:.2f} GB/s{}",
                                     drive.speed->bytes_per_s / 1e9,
                                     drive.speed->direct ? "" : " (through the page cache)"));
}

class Doctor final : public Command {
 public:
  explicit Doctor(CLI::App& app) {
    app.add_option("PATH", paths_, "Files or folders on the drives to look at; default: this one");
    app.add_flag("--no-speed", no_speed_, "Do not measure the drives");
    app.add_flag("--json", json_, "Print a JSON object");
    app.footer(
        "Changes nothing. Where a drive has no large file, a temporary one without a name is\n"
        "written and read.\n\n"
        "Examples:\n"
        "  sluice doctor\n"
        "  sluice doctor /drive/Kimi-K3 /mnt/second --json");
  }

  Status execute() override {
    if (paths_.empty()) paths_.emplace_back(".");
    const engine::Machine machine = engine::look_at_machine();
    std::vector<std::string> advice = engine::advice_for(machine);
    std::string text = text_of(machine);
    Json all = {{"machine", json_of(machine)}, {"drives", Json::array()}};
    for (const fs::path& path : paths_) {
      SLUICE_ASSIGN(const Examined drive, examine(path, !no_speed_));
      text += text_of(drive);
      all["drives"].push_back(json_of(drive));
      const auto more = advice_for(drive);
      advice.insert(advice.end(), more.begin(), more.end());
    }
    all["advice"] = advice;
    text += advice.empty() ? "\nnothing to change\n" : "\nto change:\n";
    for (const std::string& each : advice) text += fmt::format("- {}\n", each);
    return Output::standard().write(json_ ? dumped(all) : text);
  }

 private:
  std::vector<fs::path> paths_;
  bool no_speed_ = false;
  bool json_ = false;
};

}  // namespace

Registered add_doctor(CLI::App& program) {
  CLI::App* app = program.add_subcommand("doctor", "Say what this machine offers and lacks");
  return {app, std::make_unique<Doctor>(*app)};
}

}  // namespace sluice::cli
