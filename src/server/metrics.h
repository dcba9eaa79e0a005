// What Prometheus asks for: counters and histograms of the server, and the engine's statistics.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/statistics.h"
#include "server/drive_limits.h"

namespace sluice::server {

/// What the worker knows at the moment of a scrape.
struct MetricsSnapshot {
  engine::Statistics engine;    ///< some moments old while the engine works
  engine::LiveStatistics live;  ///< not
  std::size_t queued = 0;
  std::size_t queue_limit = 0;
  bool running = false;
  std::size_t saved_states = 0;
  std::uint64_t saved_state_bytes = 0;
  std::uint64_t saved_on_disk_bytes = 0;
  std::uint64_t saved_written_bytes = 0;  ///< to disk, since start
};

/// All members may be called from any thread.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// A response was sent. `route` is one of the server's own paths, never a client's text.
  void count_request(std::string_view route, int status);
  void count_refused() const;                      ///< the queue was full
  void count_left() const;                         ///< a client left before its answer was whole
  void observe_first_token(double seconds) const;  ///< since the request came
  void observe_next_token(double seconds) const;   ///< since the token before
  void count_tokens(std::size_t prompt, std::size_t cached, std::size_t written) const;

  /// Prometheus' text format.
  std::string text(const MetricsSnapshot& now, const std::vector<DriveLimit>& limits) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace sluice::server
