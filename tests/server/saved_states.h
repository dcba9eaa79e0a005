// What tests of saved sequences have in common: an engine of k3-nano with room for them, and ids.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "base/size.h"
#include "engine/engine.h"

namespace sluice::server {

using Ids = std::vector<std::int32_t>;

/// `count` ids that follow each other.
inline Ids numbered(std::size_t count, std::int32_t first) {
  Ids ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

inline engine::EngineOptions saving_options(std::size_t context) {
  engine::EngineOptions options;
  options.model = SLUICE_SOURCE_DIR "/models/k3-nano";
  options.threads = 1;
  options.context = context;
  options.ram = 512 * kMiB;
  options.saved_states = 16 * kMiB;
  return options;
}

}  // namespace sluice::server
