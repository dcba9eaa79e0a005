// Engines in the smallest budget that works.
#pragma once

#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "engine/engine.h"

namespace sluice::engine {

/// The smallest budget that an engine names when it refuses a smaller one.
inline std::uint64_t smallest_budget(EngineOptions options) {
  options.ram = 1 << 20;
  const auto refused = Engine::open(options);
  EXPECT_FALSE(refused);
  if (refused) return 0;
  EXPECT_EQ(refused.error().kind, ErrorKind::memory);
  std::smatch match;
  const std::string& message = refused.error().message;
  EXPECT_TRUE(std::regex_search(message, match, std::regex("--ram ([0-9]+)M"))) << message;
  return match.empty() ? 0 : std::stoull(match[1]) << 20;
}

/// An engine in the smallest budget and `spare` bytes. The process of a test holds what its other
/// tests left behind and may grow between the two openings, so that the budget is asked for again;
/// under a sanitizer it grows with each, so that in the end there is a MiB more, and two.
inline Result<std::unique_ptr<Engine>> open_smallest(EngineOptions options,
                                                     std::uint64_t spare = 0) {
  constexpr int kTries = 12;
  auto engine = Result<std::unique_ptr<Engine>>(nullptr);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const std::uint64_t growth = static_cast<std::uint64_t>(attempt) / 4 << 20;
    options.ram = smallest_budget(options) + spare + growth;
    engine = Engine::open(options);
    if (engine) break;
  }
  return engine;
}

}  // namespace sluice::engine
