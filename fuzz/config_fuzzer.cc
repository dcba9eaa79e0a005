// Hostile config.json: whatever it holds is understood or refused, never a crash.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "model/kimi_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto config = sluice::model::parse_kimi_config(text);
  if (!config) {
    if (config.error().message.empty()) std::abort();
    return 0;
  }
  // What was accepted must be usable without a further check.
  if (config->is_kda.size() != config->layers || config->layers == 0) std::abort();
  if (config->moe.router.top_k > config->moe.router.experts) std::abort();
  if (config->residual_banks() > sluice::model::kMostResidualBanks) std::abort();
  return 0;
}
