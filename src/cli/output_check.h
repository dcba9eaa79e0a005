// Files that a command is told to write: never ones that it reads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/compute_options.h"

namespace sluice::cli {

struct AskedOutput {
  std::string flag;  ///< for messages
  std::filesystem::path path;
  /// What is in it is looked at before a byte of it changes, so it may lie anywhere.
  bool is_continued = false;
};

/// To be called before anything is opened for writing. Fails with ErrorKind::usage when one of
/// `outputs`, --trace or --stats-json is, by whatever name, an existing file of the model's folders
/// (of GGUF models: a GGUF file in them), one of `inputs`, stdin, or weights of any model; or
/// when two of them are one file. Empty paths are left out; devices and pipes hold nothing to lose.
Status check_outputs(const ComputeOptions& options, std::vector<AskedOutput> outputs = {},
                     std::vector<std::filesystem::path> inputs = {});

}  // namespace sluice::cli
