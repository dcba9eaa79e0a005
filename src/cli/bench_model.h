// Decoding or feeding a prompt for measurement, beside what the drive can do and what was
// predicted.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/compute_options.h"
#include "engine/plan.h"
#include "engine/statistics.h"

namespace sluice::cli {

enum class BenchKind : std::uint8_t { decode, prefill };

struct ModelBench {
  BenchKind kind = BenchKind::decode;
  std::size_t tokens = 0;
  std::vector<double> token_s;  ///< decode: of each token
  double seconds = 0;           ///< of all
  double io_wait_s = 0;
  std::uint64_t bytes_read = 0;
  double drive_busy_s = 0;  ///< with a read under way; of several drives, the longest
  double hit_rate = 0;
  std::uint64_t ram = 0;
  std::size_t chunk = 0;
  std::optional<double> drive_limit;  ///< bytes/s of random reads on the same files, the better of
                                      ///< right before and right after
  engine::Prediction prediction;      ///< with the speeds measured in this run
  bool is_predicted = false;
  engine::Statistics statistics;  ///< of the engine, what came before included

  double median_s() const;
};

struct BenchOptions {
  ComputeOptions compute;
  std::size_t tokens = 0;
  std::size_t warm = 0;  ///< tokens before, which bring the weights into their place
  double trunk_share = 1;
};

/// Opens the model, runs what is not to be measured, then `tokens` tokens. That outputs are no
/// inputs (check_outputs()) is the caller's to see.
Result<ModelBench> bench_model(BenchKind kind, const BenchOptions& options);

nlohmann::ordered_json to_json(const ModelBench& bench);
std::string to_text(const ModelBench& bench);

}  // namespace sluice::cli
