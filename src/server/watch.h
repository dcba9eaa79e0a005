// The engine as it can be watched from outside: /v1/status and /v1/experts.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/drive_limits.h"
#include "server/served_model.h"
#include "server/worker.h"
#include "text/json.h"

namespace sluice::server {

/// May be called from any thread, and never waits for the engine.
class Watch {
 public:
  /// The model and the worker must outlive it.
  Watch(const ServedModel& model, const Worker& worker) : model_(model), worker_(worker) {}

  text::Json status() const;

  /// Which experts changed after the moment `since` of an earlier answer; 0: all. Words of 32 bits,
  /// least significant byte first: layers, experts of a layer, the moment (two words), then
  /// (layer * experts + expert) * 16 + state for each, the bits of state being
  /// weights::ExpertActivity's.
  std::string experts(std::uint64_t since) const;

 private:
  text::Json drives(const MetricsSnapshot& now) const;

  const ServedModel& model_;
  const Worker& worker_;
  const Clock::time_point start_ = Clock::now();
  mutable std::mutex listing_;  // one list at a time: there is memory for one
};

}  // namespace sluice::server
