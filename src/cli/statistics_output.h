// What --stats and --stats-json ask for.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/compute_options.h"
#include "engine/engine.h"

namespace sluice::cli {

/// Writes the statistics of an engine. The file is opened at the start, so that a wrong name is
/// known before hours of work and not after.
class StatisticsOutput {
 public:
  /// Fails with ErrorKind::usage if the file cannot be made.
  static Result<StatisticsOutput> prepare(const ComputeOptions& options);
  StatisticsOutput(StatisticsOutput&& other) noexcept;
  StatisticsOutput& operator=(StatisticsOutput&&) = delete;
  ~StatisticsOutput();

  /// Also after an error: what was done until then is worth knowing.
  Status write(const engine::Statistics& statistics);

 private:
  StatisticsOutput() = default;

  bool table_ = false;
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace sluice::cli
