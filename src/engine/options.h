// How an engine is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "io/make_reader.h"

namespace sluice::engine {

struct EngineOptions {
  std::filesystem::path model;

  /// Ceiling of the process's resident memory, in bytes. Default: three quarters of what the
  /// machine and the control group leave free.
  std::optional<std::uint64_t> ram;

  int threads = 0;  ///< 0: as many as the process may use
  io::IoMode io = io::IoMode::pread;

  /// Positions per prefill pass. Default: as many as are worth their memory. No choice changes a
  /// bit of any result.
  std::optional<std::size_t> chunk;

  std::size_t context = 4096;  ///< positions that a sequence can hold
  /// The user asked for just this context: more than the model was made for is refused. Otherwise
  /// it is shortened to what the model can do.
  bool context_is_asked = false;
  std::size_t sequences = 1;  ///< states that may exist at once
  bool all_logits = false;    ///< logits of all positions will be asked for, not only of the last

  /// Where to write a Chrome trace of every read and every computation; empty: nowhere.
  std::filesystem::path trace;

  /// Puts something between the engine and its reader; for tests (fault injection).
  std::function<std::unique_ptr<io::Reader>(std::unique_ptr<io::Reader>)> wrap_reader = nullptr;
};

}  // namespace sluice::engine
