// The flags that all commands share which compute: all but --kv-type change speed and memory, never
// a result.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/options.h"
#include "io/make_reader.h"

namespace sluice::cli {

/// Positions, where --ctx does not say.
inline constexpr std::size_t kDefaultContext = 4096;

struct ComputeOptions {
  std::filesystem::path model;
  std::vector<std::filesystem::path> model_folders;  ///< with further weight files or copies
  std::optional<std::uint64_t> ram;
  int threads = 0;  ///< 0: the engine's choice
  io::IoMode io = io::IoMode::automatic;
  std::optional<std::uint64_t> read_size;
  std::optional<int> queue_depth;
  std::optional<std::size_t> chunk;
  std::optional<std::size_t> context;
  kernels::WeightFormat cache_format = kernels::WeightFormat::f32;
  std::optional<std::uint64_t> ring;
  std::optional<std::size_t> lookahead;         ///< 0: off
  std::size_t drafts = 0;                       ///< 0: off
  std::vector<engine::AdapterSource> adapters;  ///< where the command takes --lora
  std::optional<std::uint64_t> adapter_ram;
  std::optional<std::string> adapter;  ///< the name of one of them, or "none"
  bool learn = true;
  bool stats = false;
  std::string stats_json;       ///< a file; empty: none
  std::filesystem::path trace;  ///< a file; empty: none
  bool quiet = false;
};

/// The argument MODEL.
void add_model(CLI::App& app, std::filesystem::path& model);
/// The same as a flag, --model.
void add_model_flag(CLI::App& app, std::filesystem::path& model);

/// The flag --model-dir.
void add_model_folders(CLI::App& app, std::vector<std::filesystem::path>& folders);

/// The flag --kv-type.
CLI::Option* add_cache_format(CLI::App& app, kernels::WeightFormat& format);

/// The flag --draft, where text is written.
void add_drafts(CLI::App& app, std::size_t& drafts);

/// MODEL and all flags of ComputeOptions. `context` says what --ctx is by default.
void add_compute_options(CLI::App& app, ComputeOptions& options,
                         const std::string& context = "what is needed");

/// How to open an engine for these options, with room for `context` positions unless --ctx says
/// otherwise.
engine::EngineOptions engine_options(const ComputeOptions& options, std::size_t context);

/// Where things are kept that only make later runs faster: XDG_CACHE_HOME or ~/.cache. Empty if
/// there is no such place.
std::filesystem::path cache_folder();

/// The folder with config.json and the tokenizer of MODEL, as engine::text_folder().
Result<std::filesystem::path> model_folder(const std::filesystem::path& model);

}  // namespace sluice::cli
