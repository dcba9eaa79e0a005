// How a walk over a whole model goes: pack and verify.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "cli/progress.h"

namespace sluice::cli {

/// "writing [######----] 61 %, 9.2 GiB of 15.1 GiB, 1480 MB/s, 4 s left"
class WalkProgress {
 public:
  explicit WalkProgress(bool quiet) : line_(quiet) {}

  /// `before`: bytes of `done` that were there at the start. A new `what` starts a new clock.
  void show(std::string_view what, std::uint64_t done, std::uint64_t before, std::uint64_t total);
  void erase() { line_.erase(); }

 private:
  ProgressLine line_;
  std::string_view what_;
  Clock::time_point start_;
};

}  // namespace sluice::cli
