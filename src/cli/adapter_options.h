// The flags that bring LoRA adapters to a model.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

#include "base/result.h"
#include "cli/compute_options.h"

namespace sluice::cli {

/// Adds --lora and --lora-ram.
void add_adapters(CLI::App& app, ComputeOptions& options);

/// The same, and --use-lora, for a command that computes with one adapter at most.
void add_one_adapter(CLI::App& app, ComputeOptions& options);

/// The number of the adapter that the command computes with, counted from 1; 0: none. The only one
/// there is, or the one that --use-lora names. Fails with ErrorKind::usage where there are several
/// and none is named, or none has that name.
Result<std::uint32_t> chosen_adapter(const ComputeOptions& options);

}  // namespace sluice::cli
