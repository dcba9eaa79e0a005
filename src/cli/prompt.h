// Where a prompt comes from: the flags -p, -f and --ids.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice::cli {

struct PromptOptions {
  std::optional<std::string> text;
  std::optional<std::string> file;  ///< "-": stdin
  std::vector<std::int32_t> ids;

  bool has_text() const { return text || file; }
};

void add_prompt_options(CLI::App& app, PromptOptions& options);

/// Fails with ErrorKind::usage unless there is exactly one source. For a text: reads it, and
/// refuses an empty one with advice. Nothing for ids.
Result<std::string> read_prompt(const PromptOptions& options);

/// The whole of a file of any kind, or of stdin ("-"). Fails with ErrorKind::usage, naming `flag`,
/// if it cannot be read or is longer than `most` bytes; by default more than any prompt can have.
Result<std::string> read_whole(const std::string& path, const std::string& flag,
                               std::size_t most = std::size_t{64} << 20);

}  // namespace sluice::cli
