// sluice plan: what a machine will do with a model, before anything is downloaded.
#include <malloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/log.h"
#include "base/memory_info.h"
#include "base/size.h"
#include "cli/command.h"
#include "cli/compute_options.h"
#include "cli/flags.h"
#include "cli/forecast.h"
#include "cli/model_facts.h"
#include "cli/plan_report.h"
#include "engine/budget.h"
#include "engine/drive_speed.h"
#include "engine/kernel_speed.h"
#include "engine/machine.h"
#include "engine/profiles.h"
#include "model/registry.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kGiga = 1e9;
constexpr double kAssumedDrive = 3e9;  // an NVMe drive on PCIe 3
constexpr double kDriveSeconds = 0.6;
constexpr double kKernelSeconds = 1.2;

struct PlanOptions {
  fs::path model;
  std::vector<fs::path> folders;
  std::vector<std::string> ram;
  std::vector<std::string> drives;
  std::optional<std::size_t> context;
  kernels::WeightFormat cache_format = kernels::WeightFormat::f32;
  std::size_t prompt = 128;
  std::string profile;
  bool json = false;
};

bool is_config(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".json") && !name.ends_with(".index.json");
}

/// Where the config is, if it is all there is: a file, or a folder without weights.
std::optional<fs::path> lone_config(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return is_config(path) ? std::optional(path) : std::nullopt;
  }
  if (!fs::exists(path / "config.json", error)) return std::nullopt;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    // An index or a download that has not come in yet holds no weights.
    if (name.ends_with(".safetensors") || name.starts_with("sluice-pack")) {
      return std::nullopt;
    }
  }
  return path / "config.json";
}

/// The model, from a checkpoint or from a config alone.
Result<ModelFacts> facts_of(const fs::path& path, const std::vector<fs::path>& folders,
                            bool& from_config) {
  const auto config = folders.empty() ? lone_config(path) : std::nullopt;
  from_config = config.has_value();
  if (!from_config) return gather_facts(path, folders);
  ModelFacts facts;
  SLUICE_ASSIGN(facts.reader, io::make_reader(io::IoMode::automatic));
  SLUICE_ASSIGN(facts.architecture, model::imagine_architecture(*config));
  facts.folder = *config;
  for (const model::ClassTotal& total : facts.blueprint().totals) {
    facts.payload_bytes += total.bytes;
    facts.tensors += total.tensors;
  }
  return facts;
}

std::string key_of(model::TensorClass tensor_class) {
  switch (tensor_class) {
    case model::TensorClass::experts:
      return "experts";
    case model::TensorClass::trunk:
      return "trunk";
    case model::TensorClass::embedding:
      return "embedding";
    case model::TensorClass::head:
      return "head";
    case model::TensorClass::final_norms:
      return "final_norms";
    case model::TensorClass::left_out:
      return "left_out";
  }
  return "?";
}

/// "3", "3.5", "7GB/s": bytes per second. None: it is a path. Fails when it is a number that no
/// drive has.
Result<std::optional<double>> parse_speed(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  const bool is_number = error == std::errc() && (unit.empty() || unit == "GB/s");
  if (!is_number) return std::optional<double>();
  if (number >= 0.001 && number <= 10'000) return std::optional(number * kGiga);
  return fail(ErrorKind::usage, "--drive: {}: expected 0.001 to 10000 GB/s, or a path", text);
}

/// The number of the device that a file or folder lies on.
std::uint64_t device_of(const fs::path& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 ? facts.st_dev : 0;
}

class Plan final : public Command {
 public:
  explicit Plan(CLI::App& app) {
    app.add_option("MODEL", options_.model,
                   "The model's folder or one of its files; or only its "
                   "config.json")
        ->required();
    add_model_folders(app, options_.folders);
    app.add_option(
           "--ram", options_.ram,
           "A memory size like 6G to plan for; may be given more than once; default: 3/4 of "
           "what is free")
        ->type_name("SIZE")
        ->check(
            [](const std::string& text) {
              const auto size = parse_size(text);
              return size ? std::string() : size.error().message;
            },
            "")
        ->allow_extra_args(false);
    app.add_option("--drive", options_.drives,
                   "A drive: its speed in GB/s, or a path on it, which is measured; given once "
                   "for each drive; default: the model's own")
        ->type_name("PATH|GB/s")
        ->allow_extra_args(false);
    add_count(app, "--ctx,--context", options_.context, 1, std::uint64_t{1} << 30,
              "Positions to keep room for; default: 4096");
    add_cache_format(app, options_.cache_format);
    add_count(app, "--prompt", options_.prompt, 1, std::uint64_t{1} << 20,
              "Positions before the first token; default: 128");
    app.add_option("--profile", options_.profile, "Instead of this machine: " + profile_names())
        ->type_name("NAME");
    app.add_flag("--json", options_.json, "Print a JSON object");
    app.footer(
        "Nothing of the weights is read, but for a second to measure a drive with. Times are\n"
        "ranges: from a text that picks the same experts again to one that does not.\n\n"
        "Examples:\n"
        "  sluice plan Kimi-K3/config.json --profile laptop-16\n"
        "  sluice plan Kimi-K3/config.json --drive /mnt/a --drive /mnt/b --ram 24G\n"
        "  sluice plan /drive/Kimi-K3 --json");
  }

  Status execute() override {
    SLUICE_TRY(parse_texts());
    SLUICE_ASSIGN(const ModelFacts facts,
                  facts_of(options_.model, options_.folders, report_.from_config));
    SLUICE_TRY(check_context(facts, options_.context));
    facts.architecture->cache_as(options_.cache_format);
    malloc_trim(0);  // the directory of names is gone, and must not count in the plan
    describe(facts);
    const std::uint64_t resident = resident_memory();
    SLUICE_TRY(find_speeds(facts));
    if (asked_.empty()) asked_.insert(default_ram(resident));
    SLUICE_TRY(plan(facts));
    Output output = Output::standard();
    return options_.json ? write_plan_json(report_, output) : write_plan_text(report_, output);
  }

 private:
  static std::string profile_names() {
    std::string names;
    for (const engine::MachineProfile& profile : engine::machine_profiles()) {
      names += names.empty() ? "" : ", ";
      names += profile.name;
    }
    return names;
  }

  /// What can be wrong in the flags, before anything takes time.
  Status parse_texts() {
    for (const std::string& text : options_.ram) {
      const auto size = parse_size(text);
      if (!size) return fail(ErrorKind::usage, "--ram: {}", size.error().message);
      asked_.insert(*size);
    }
    if (!options_.profile.empty()) {
      auto profile = engine::find_profile(options_.profile);
      if (!profile) return fail(ErrorKind::usage, "--profile: {}", profile.error().message);
      profile_ = *profile;
    }
    return parse_drives();
  }

  Status parse_drives() {
    std::map<std::uint64_t, std::string> seen;  // by device
    for (const std::string& text : options_.drives) {
      SLUICE_ASSIGN(const auto speed, parse_speed(text));
      if (speed) continue;
      if (const Status can_be = engine::TrialFiles::check(text); !can_be) {
        return fail(ErrorKind::usage, "--drive: {} (and this is no speed in GB/s)",
                    can_be.error().message);
      }
      const auto [at, is_new] = seen.emplace(device_of(text), text);
      if (is_new) continue;
      return fail(ErrorKind::usage,
                  "--drive: {} lies on the same drive as {}; their speeds do not add up", text,
                  at->second);
    }
    return {};
  }

  void describe(const ModelFacts& facts) {
    report_.model = facts.folder.string();
    report_.architecture = facts.shape().architecture;
    report_.experts = count_experts(facts.blueprint());
    report_.workload.context =
        std::min(options_.context.value_or(report_.workload.context), facts.shape().max_positions);
    report_.workload.prompt = std::min(options_.prompt, report_.workload.context);
    report_.load = engine::load_of(*facts.architecture, report_.workload.context);
    for (std::size_t i = 0; i < model::kTensorClasses; ++i) {
      const auto each = static_cast<model::TensorClass>(i);
      const model::ClassTotal& total = facts.total(each);
      if (total.tensors == 0) continue;
      report_.classes.push_back(
          {key_of(each), std::string(name_of(each)), total.tensors, total.bytes});
    }
  }

  Status find_speeds(const ModelFacts& facts) {
    if (profile_) {
      report_.machine = fmt::format("{} (typical figures)", profile_->description);
      report_.threads = profile_->cores;
      report_.speeds = profile_->speeds();
    } else {
      report_.machine = "this machine, measured";
      report_.threads = engine::usable_cores();
      SLUICE_ASSIGN(const engine::KernelReport kernels,
                    engine::measure_kernels(report_.threads, kKernelSeconds));
      report_.speeds = engine::speeds_of(kernels);
    }
    SLUICE_TRY(find_drives(facts));
    report_.speeds.drive = 0;
    for (const PlanReport::Drive& drive : report_.drives) {
      report_.speeds.drive += drive.bytes_per_s;
    }
    return {};
  }

  Status find_drives(const ModelFacts& facts) {
    for (const std::string& text : options_.drives) {
      SLUICE_ASSIGN(const auto speed, parse_speed(text));
      if (speed) {
        report_.drives.push_back({text, *speed, "given"});
        continue;
      }
      SLUICE_ASSIGN(const engine::TrialFiles files, engine::TrialFiles::find(text));
      SLUICE_TRY(measure(text, files));
    }
    if (!report_.drives.empty()) return {};
    if (profile_) {
      for (int i = 0; i < profile_->drives; ++i) {
        report_.drives.push_back(
            {fmt::format("drive {}", i + 1), profile_->drive_gb_s * kGiga, "profile"});
      }
      return {};
    }
    SLUICE_TRY(measure_own_drives(facts));
    if (!report_.drives.empty()) return {};
    report_.drives.push_back({"an NVMe drive", kAssumedDrive,
                              "assumed, as there are no large files to measure; see --drive"});
    return {};
  }

  /// Those that the model lies on. With a copy of all files, reads come from all drives at once;
  /// else what a run reads comes now from one, now from another.
  Status measure_own_drives(const ModelFacts& facts) {
    std::map<std::uint64_t, std::vector<fs::path>> files_by_drive;
    const bool is_mirrored = std::ranges::all_of(
        facts.files, [](const store::ShardFile& file) { return !file.copies.empty(); });
    const auto note = [&](const fs::path& path) {
      files_by_drive[is_mirrored ? device_of(path) : 0].push_back(path);
    };
    for (const store::ShardFile& file : facts.files) {
      note(file.path);
      if (!is_mirrored) continue;
      for (const fs::path& copy : file.copies) note(copy);
    }
    for (const auto& [device, paths] : files_by_drive) {
      const engine::TrialFiles files = engine::TrialFiles::among(paths);
      if (files.paths().empty()) continue;
      const fs::path folder = is_mirrored ? paths.front().parent_path() : facts.folder;
      SLUICE_TRY(measure(folder.string(), files));
    }
    return {};
  }

  Status measure(const std::string& name, const engine::TrialFiles& files) {
    SLUICE_ASSIGN(const engine::DriveSpeed speed,
                  engine::measure_drive(files, {.seconds = kDriveSeconds}));
    report_.drives.push_back({name, speed.bytes_per_s, "measured"});
    return {};
  }

  /// As the engine would choose it.
  std::uint64_t default_ram(std::uint64_t resident) const {
    if (profile_) return engine::default_budget(0, profile_->memory_bytes);
    return engine::default_budget(resident, available_memory()) / kMiB * kMiB;
  }

  Status plan(const ModelFacts& facts) {
    const engine::FitOptions how = {report_.workload.context, report_.threads,
                                    memory_of_a_run(facts)};
    SLUICE_ASSIGN(const std::uint64_t smallest,
                  engine::smallest_fit(*facts.architecture, *facts.reader, how));
    std::set<std::uint64_t> sizes = engine::memory_ladder(facts.payload_bytes);
    sizes.insert(smallest);
    sizes.insert(asked_.begin(), asked_.end());
    for (const std::uint64_t ram : sizes) {
      PlanLine line;
      line.ram = ram;
      line.is_asked = asked_.contains(ram);
      line.is_smallest = ram == smallest;
      fill_in(facts, how, line);
      report_.lines.push_back(std::move(line));
    }
    return {};
  }

  /// A memory size that was placed; none: the model does not fit.
  struct Placed {
    engine::FixedNeeds needs;
    engine::Residence residence;
  };

  /// Placing the experts of a big model takes a while, so each size is placed once.
  const std::optional<Placed>& place(const ModelFacts& facts, const engine::FitOptions& how,
                                     std::uint64_t ram) {
    const auto known = placed_.find(ram);
    if (known != placed_.end()) return known->second;
    std::optional<Placed>& placed = placed_[ram];
    if (const auto fit = engine::fit(*facts.architecture, *facts.reader, how, ram)) {
      placed = Placed{fit->budget.needs,
                      engine::residence_of(*facts.architecture, fit->placement, fit->budget.chunk)};
    }
    return placed;
  }

  void fill_in(const ModelFacts& facts, const engine::FitOptions& how, PlanLine& line) {
    const std::optional<Placed>& placed = place(facts, how, line.ram);
    if (!placed) return;
    line.fits = true;
    line.needs = placed->needs;
    line.residence = placed->residence;
    line.prediction =
        engine::predict(report_.load, line.residence, report_.speeds, report_.workload);
    std::optional<engine::Residence> doubled;
    if (const auto& twice = place(facts, how, 2 * line.ram)) doubled = twice->residence;
    line.advice =
        engine::advise(report_.load, line.residence, doubled, report_.speeds, report_.workload);
  }

  PlanOptions options_;
  std::set<std::uint64_t> asked_;
  std::optional<engine::MachineProfile> profile_;
  PlanReport report_;
  std::map<std::uint64_t, std::optional<Placed>> placed_;  // by memory size
};

}  // namespace

Registered add_plan(CLI::App& program) {
  CLI::App* app = program.add_subcommand("plan", "Predict what a machine will do with a model");
  return {app, std::make_unique<Plan>(*app)};
}

}  // namespace sluice::cli
