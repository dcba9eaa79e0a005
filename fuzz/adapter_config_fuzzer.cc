// Hostile adapter_config.json: whatever it holds is understood or refused, never a crash.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "model/adapter_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> faults;
  const auto config = sluice::model::parse_adapter_config(text, faults);
  if (!config) {
    if (config.error().message.empty()) std::abort();
    return 0;
  }
  if (!faults.empty()) return 0;
  // What was accepted must be usable without a further check.
  for (const char* module : {"", "q_proj", "model.layers.0.self_attn.q_proj"}) {
    const std::size_t rank = config->rank_of(module);
    if (rank < 1 || rank > sluice::model::kMostRank) std::abort();
    if (!std::isfinite(config->scale_of(module))) std::abort();
    static_cast<void>(config->is_target(module));
  }
  return 0;
}
