// The flags that all commands share which compute: they change speed and memory, never a result.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/options.h"
#include "io/make_reader.h"

namespace sluice::cli {

struct ComputeOptions {
  std::filesystem::path model;
  std::optional<std::uint64_t> ram;
  int threads = 0;  ///< 0: the engine's choice
  io::IoMode io = io::IoMode::pread;
  std::optional<std::size_t> chunk;
  std::optional<std::size_t> context;
  bool stats = false;
  std::string stats_json;  ///< a file; empty: none
  bool quiet = false;
};

/// The argument MODEL.
void add_model(CLI::App& app, std::filesystem::path& model);

/// MODEL and all flags of ComputeOptions.
void add_compute_options(CLI::App& app, ComputeOptions& options);

/// How to open an engine for these options, with room for `context` positions unless --ctx says
/// otherwise.
engine::EngineOptions engine_options(const ComputeOptions& options, std::size_t context);

/// The folder with config.json and the tokenizer of MODEL, which may also be a weight file or an
/// index. Fails with ErrorKind::model_files if there is nothing at this path.
Result<std::filesystem::path> model_folder(const std::filesystem::path& model);

}  // namespace sluice::cli
