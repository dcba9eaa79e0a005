// Where a prompt comes from: the flags -p, -f and --ids.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice::cli {

/// Whether a text of so many bytes can be of use; asked before more of a long one is read.
using SizeCheck = std::function<Status(std::uint64_t bytes)>;

struct PromptOptions {
  std::optional<std::string> text;
  std::optional<std::string> file;  ///< "-": stdin
  std::vector<std::int32_t> ids;

  bool has_text() const { return text || file; }
};

void add_prompt_options(CLI::App& app, PromptOptions& options);

/// Fails with ErrorKind::usage unless there is exactly one source. For a text: reads it, and
/// refuses an empty one with advice. Nothing for ids.
Result<std::string> read_prompt(const PromptOptions& options, const SizeCheck& check = {});

/// The whole of a file of any kind, or of stdin ("-"). Fails with ErrorKind::usage, naming `flag`,
/// if it cannot be read or is longer than `most` bytes (by default more than any prompt can have),
/// or as `check` does. Memory is taken for what is there, and never for more than `most`.
Result<std::string> read_whole(const std::string& path, const std::string& flag,
                               std::size_t most = std::size_t{64} << 20,
                               const SizeCheck& check = {});

}  // namespace sluice::cli
