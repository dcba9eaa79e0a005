// Taking requests' bodies apart.
#pragma once

#include <cstddef>
#include <mutex>

namespace sluice::server {

/// Of all of a server: what a body becomes in memory is many times its size, and there is memory
/// for one at a time.
struct Parsing {
  explicit Parsing(std::size_t values) : most_values(values) {}

  const std::size_t most_values;  ///< that a body may have
  /// Held while there is a body as JSON, and never while its holder waits for a drive or a client.
  std::mutex one_at_a_time;
};

}  // namespace sluice::server
