#include "cli/compute_options.h"

#include <cstdlib>

#include "base/log.h"
#include "cli/flags.h"
#include "engine/model_text.h"
#include "model/network.h"

namespace sluice::cli {
namespace {

constexpr const char* kModelText =
    "The model's folder, as downloaded; or its index, weight file or GGUF file";
constexpr const char* kSpeedGroup = "Memory and speed (never change a result)";
constexpr std::uint64_t kMostThreads = 1024;
constexpr std::uint64_t kMostQueueDepth = 128;
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

constexpr std::uint64_t kMostLookahead = 1024;

std::string lookahead_text(std::size_t count) { return count == 0 ? "off" : std::to_string(count); }

Result<std::uint64_t> parse_off_or_count(const std::string& text, std::uint64_t most) {
  if (text == "off") return std::uint64_t{0};
  auto count = parse_count(text, 1, most);
  if (!count) return fail(ErrorKind::usage, "{}, nor off", count.error().message);
  return count;
}

Result<bool> parse_switch(const std::string& text) {
  if (text == "on" || text == "off") return text == "on";
  return fail(ErrorKind::usage, "expected on or off, found \"{}\"", text);
}

Result<kernels::WeightFormat> parse_cache_format(const std::string& text) {
  using kernels::WeightFormat;
  for (const auto format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::q8_0}) {
    if (text == kernels::cache_format_name(format)) return format;
  }
  return fail(ErrorKind::usage, "expected f32, bf16 or q8_0, found \"{}\"", text);
}

}  // namespace

void add_model(CLI::App& app, std::filesystem::path& model) {
  app.add_option("MODEL", model, kModelText)->required();
}

void add_model_flag(CLI::App& app, std::filesystem::path& model) {
  app.add_option("--model", model, kModelText)->type_name("MODEL")->required();
}

void add_model_folders(CLI::App& app, std::vector<std::filesystem::path>& folders) {
  app.add_option("--model-dir", folders,
                 "A further folder with weight files of MODEL, on another drive; may be given more "
                 "than once. A file that is found again is a copy: reads are shared among copies, "
                 "and what one drive fails to give is read from another")
      ->type_name("DIR")
      ->allow_extra_args(false);
}

CLI::Option* add_cache_format(CLI::App& app, kernels::WeightFormat& format) {
  return add_parsed(
      app, "--kv-type", "TYPE",
      "How keys and values of past positions are kept: f32, which is exact, or rounded in a half "
      "(bf16) or a quarter (q8_0) of its memory; default: f32",
      [](const std::string& text) { return parse_cache_format(text); },
      [&format](kernels::WeightFormat parsed) { format = parsed; });
}

void add_drafts(CLI::App& app, std::size_t& drafts) {
  add_parsed(
      app, "--draft", "N|off",
      fmt::format("Guess up to N tokens ({} at most) that may follow, from what the text said "
                  "before, and compute them in the last token's pass; pays where the trunk is "
                  "streamed and the text repeats; default: off",
                  model::kMostDrafts),
      [](const std::string& text) { return parse_off_or_count(text, model::kMostDrafts); },
      [&drafts](std::uint64_t count) { drafts = count; })
      ->group(kSpeedGroup);
}

void add_compute_options(CLI::App& app, ComputeOptions& options, const std::string& context) {
  add_model(app, options.model);
  add_model_folders(app, options.model_folders);
  const std::string group = kSpeedGroup;
  add_size(app, "--ram", options.ram,
           "Ceiling of the whole process's memory, like 64M, 6G, 1.5GiB; "
           "default: 3/4 of what is free")
      ->group(group);
  add_count(app, "--threads", options.threads, 1, kMostThreads,
            "Threads that compute; default: one per core")
      ->group(group);
  add_parsed(
      app, "--io", "WAY", "How to read: " + io_modes() + "; default: automatic",
      [](const std::string& text) { return io::parse_io_mode(text); },
      [&options](io::IoMode mode) { options.io = mode; })
      ->group(group);
  add_size(app, "--read-size", options.read_size,
           "Bytes of one read at most, a multiple of 4K; default: 4M")
      ->group(group);
  add_count(app, "--queue-depth", options.queue_depth, 1, kMostQueueDepth,
            "Reads under way per drive; default: found while reading (uring), or 8 (pread, mmap)")
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
  add_size(
      app, "--ring", options.ring,
      "Memory for the trunk on its way through; default: up to 96 MiB, an eighth of the budget "
      "at most")
      ->group(group);
  add_parsed(
      app, "--lookahead", "N|off",
      "Guess N experts of the next layer and read them with idle drive time; default: " +
          lookahead_text(engine::EngineOptions::kDefaultLookahead),
      [](const std::string& text) { return parse_off_or_count(text, kMostLookahead); },
      [&options](std::uint64_t count) { options.lookahead = count; })
      ->group(group);
  add_parsed(
      app, "--learn", "on|off",
      "Remember in the cache folder which experts the model uses, so that the next run starts "
      "with them; default: on",
      [](const std::string& text) { return parse_switch(text); },
      [&options](bool is_on) { options.learn = is_on; })
      ->group(group);
  add_cache_format(app, options.cache_format)->group("Memory for exactness");
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
  result.model_folders = options.model_folders;
  result.ram = options.ram;
  result.threads = options.threads;
  result.io = options.io;
  result.read_bytes = options.read_size;
  result.queue_depth = options.queue_depth;
  result.chunk = options.chunk;
  result.ring = options.ring;
  result.lookahead = options.lookahead.value_or(engine::EngineOptions::kDefaultLookahead);
  result.drafts = options.drafts;
  if (options.learn) result.history = cache_folder();
  result.trace = options.trace;
  result.context = options.context.value_or(context);
  result.context_is_asked = options.context.has_value();
  result.cache_format = options.cache_format;
  result.adapters = options.adapters;
  result.adapter_ram = options.adapter_ram;
  return result;
}

std::filesystem::path cache_folder() {
  const auto variable = [](const char* name) -> std::filesystem::path {
    const char* const value = std::getenv(name);
    return value != nullptr && value[0] == '/' ? value : "";
  };
  const std::filesystem::path cache = variable("XDG_CACHE_HOME");
  if (!cache.empty()) return cache / "sluice";
  const std::filesystem::path home = variable("HOME");
  return home.empty() ? home : home / ".cache" / "sluice";
}

Result<std::filesystem::path> model_folder(const std::filesystem::path& model) {
  return engine::text_folder(model);
}

}  // namespace sluice::cli
