// Reading all of a model to see whether it is what it should be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "base/function_ref.h"
#include "base/result.h"
#include "io/make_reader.h"
#include "store/pack.h"

namespace sluice::engine {

struct VerifyProgress {
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
};

struct VerifyFault {
  ErrorKind kind = ErrorKind::model_files;  ///< or drive: it could not be read
  std::string message;                      ///< names file and block or tensor
};

struct VerifyOptions {
  std::filesystem::path model;
  /// As EngineOptions::model_folders: copies that are found there are compared byte by byte.
  std::vector<std::filesystem::path> model_folders = {};
  io::IoMode io = io::IoMode::automatic;
  /// As EngineOptions::wrap_reader; for tests.
  std::function<std::unique_ptr<io::Reader>(std::unique_ptr<io::Reader>)> wrap_reader = nullptr;
};

struct VerifyReport {
  bool is_pack = false;
  std::uint64_t bytes = 0;   ///< read and looked at
  std::uint64_t pieces = 0;  ///< blocks of a pack, tensors of a checkpoint
  std::uint64_t faults = 0;
  std::vector<VerifyFault> listed;  ///< the first kMostListed of them
  static constexpr std::size_t kMostListed = 10'000;

  void add(VerifyFault fault);
};

/// Reads every byte of the model. What a run opens beside the weights (configuration, tokenizer,
/// generation_config.json) must open. Of a pack, every checksum must hold, those of the small files
/// included. Of a checkpoint, every
/// byte must be readable, no bf16, f16 or f32 value may be NaN or infinite, and no scale byte of
/// MXFP4 may be 255. What is wrong is in the report; an error only says that the work could not be
/// done (ErrorKind::interrupted, memory).
Result<VerifyReport> verify(const VerifyOptions& options,
                            FunctionRef<void(const VerifyProgress&)> progress,
                            const Cancellation* cancellation = nullptr);

/// Called when all blocks before `block` were looked at.
using BlockDone = FunctionRef<Status(std::size_t block)>;

/// Reads a pack's stream from `first_block` on, and calls on_fault(block, fault) for what is
/// wrong. `reader` and `parts` as for make_pack_reader().
Status verify_stream(const std::shared_ptr<const store::Pack>& pack,
                     std::unique_ptr<io::Reader> reader, std::vector<io::FileId> parts,
                     std::size_t first_block,
                     FunctionRef<void(std::size_t block, VerifyFault)> on_fault, BlockDone on_done,
                     const Cancellation* cancellation);

}  // namespace sluice::engine
