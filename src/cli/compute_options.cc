#include "cli/compute_options.h"

#include "base/log.h"
#include "cli/flags.h"
#include "store/checkpoint.h"

namespace sluice::cli {
namespace {

constexpr std::uint64_t kMostThreads = 1024;
constexpr std::uint64_t kMostChunk = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostContext = std::uint64_t{1} << 30;

/// "pread, mmap": whatever the io layer knows.
std::string io_modes() {
  std::string list;
  for (std::uint8_t mode = 0; io::name_of(static_cast<io::IoMode>(mode)) != "?"; ++mode) {
    list += list.empty() ? "" : ", ";
    list += io::name_of(static_cast<io::IoMode>(mode));
  }
  return list;
}

}  // namespace

void add_model(CLI::App& app, std::filesystem::path& model) {
  app.add_option("MODEL", model, "The model's folder, as downloaded; or its index or weight file")
      ->required();
}

void add_compute_options(CLI::App& app, ComputeOptions& options, const std::string& context) {
  add_model(app, options.model);
  const std::string group = "Memory and speed (never change a result)";
  add_size(app, "--ram", options.ram,
           "Ceiling of the whole process's memory, like 64M, 6G, 1.5GiB; "
           "default: 3/4 of what is free")
      ->group(group);
  add_count(app, "--threads", options.threads, 1, kMostThreads,
            "Threads that compute; default: one per core")
      ->group(group);
  add_parsed(
      app, "--io", "WAY", "How to read: " + io_modes() + "; default: pread",
      [](const std::string& text) { return io::parse_io_mode(text); },
      [&options](io::IoMode mode) { options.io = mode; })
      ->group(group);
  add_count(app, "--chunk", options.chunk, 1, kMostChunk,
            "Positions of a prompt that go through a layer at once; default: what is worth its "
            "memory")
      ->group(group);
  add_count(app, "--ctx", options.context, 1, kMostContext,
            "Positions to keep room for, prompt and answer together; at most what the model was "
            "made for; default: " +
                context)
      ->group(group);
  const std::string notes = "Notes (on stderr)";
  app.add_flag("--stats", options.stats, "Print a table at the end: where time and memory went")
      ->group(notes);
  app.add_option("--stats-json", options.stats_json, "Write the same as JSON into a file")
      ->type_name("FILE")
      ->group(notes);
  app.add_option("--trace", options.trace,
                 "Write every read and computation with its time into a file that chrome://tracing "
                 "and Perfetto show")
      ->type_name("FILE")
      ->group(notes);
  app.add_flag_callback(
         "-q,--quiet",
         [&options] {
           options.quiet = true;
           set_log_level(LogLevel::warning);
         },
         "No progress and no notes; errors and warnings only")
      ->group(notes);
}

engine::EngineOptions engine_options(const ComputeOptions& options, std::size_t context) {
  engine::EngineOptions result;
  result.model = options.model;
  result.ram = options.ram;
  result.threads = options.threads;
  result.io = options.io;
  result.chunk = options.chunk;
  result.trace = options.trace;
  result.context = options.context.value_or(context);
  result.context_is_asked = options.context.has_value();
  return result;
}

Result<std::filesystem::path> model_folder(const std::filesystem::path& model) {
  return store::folder_of_model(model);
}

}  // namespace sluice::cli
