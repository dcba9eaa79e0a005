#include "engine/pressure.h"

#include <algorithm>

#include "base/memory_info.h"
#include "base/size.h"

namespace sluice::engine {
namespace {

constexpr auto kCalmInterval = std::chrono::milliseconds(200);
constexpr auto kTightInterval = std::chrono::milliseconds(50);

// Memory counts as tight below so many reserves: there it is looked at more often.
constexpr std::uint64_t kTight = 8;

// So long nothing must have been short before room is taken back.
constexpr auto kCalm = std::chrono::seconds(2);

// A tenth of the time spent waiting for memory, or so many pages of our own that had to be read
// back per second, say that too much is in use whatever the sums say.
constexpr double kStalledShare = 0.1;
constexpr double kFaultsPerSecond = 100;
constexpr std::uint64_t kSufferingPart = 16;

class System final : public MemorySource {
 public:
  explicit System(bool count_faults) : count_faults_(count_faults) {}
  MemorySigns look() override {
    return {available_memory(), resident_memory(), memory_stall_s(),
            count_faults_ ? major_faults() : 0};
  }

 private:
  const bool count_faults_;
};

}  // namespace

std::unique_ptr<MemorySource> system_memory(bool count_faults) {
  return std::make_unique<System>(count_faults);
}

PressureGuard::PressureGuard(std::unique_ptr<MemorySource> source, std::uint64_t ram)
    : source_(std::move(source)),
      reserve_(std::clamp(ram / 64, 16 * kMiB, 256 * kMiB)),
      interval_(kCalmInterval) {}

/// Only where memory is not plentiful: stalls may come from another group's limit.
bool PressureGuard::is_suffering(const MemorySigns& signs, double seconds) const {
  if (signs.available_bytes > kTight * reserve_) return false;
  const auto faults = static_cast<double>(signs.major_faults - last_.major_faults);
  return signs.stalled_s - last_.stalled_s > kStalledShare * seconds ||
         faults > kFaultsPerSecond * seconds;
}

PressureGuard::Step PressureGuard::check(std::uint64_t gone_bytes, std::uint64_t kept_bytes) {
  const Clock::time_point now = source_->now();
  if (has_looked_ && now - last_look_ < interval_) return {};
  const MemorySigns signs = source_->look();
  const double seconds = std::chrono::duration<double>(now - last_look_).count();
  Step step;
  step.available = signs.available_bytes;
  std::uint64_t taken_by_others = 0;  // since the last look; they may take as much again
  bool is_short = false;
  if (has_looked_) {
    const std::uint64_t before = last_.available_bytes + last_.resident_bytes;
    const std::uint64_t after = signs.available_bytes + signs.resident_bytes;
    taken_by_others = before - std::min(before, after);
    is_short = is_suffering(signs, seconds);
    if (is_short) step.give_back = kept_bytes / kSufferingPart;
  } else {
    calm_since_ = now;
  }
  const std::uint64_t wanted = reserve_ + taken_by_others;
  if (signs.available_bytes < wanted) {
    step.give_back = std::max(step.give_back, wanted - signs.available_bytes);
    is_short = true;
  }
  step.give_back = std::min(step.give_back, kept_bytes);
  if (is_short) {
    calm_since_ = now;
  } else if (gone_bytes > 0 && now - calm_since_ >= kCalm && signs.available_bytes > 2 * wanted) {
    step.take_back = std::min(gone_bytes, (signs.available_bytes - 2 * wanted) / 2);
  }
  interval_ =
      is_short || signs.available_bytes < kTight * reserve_ ? kTightInterval : kCalmInterval;
  last_ = signs;
  last_look_ = now;
  has_looked_ = true;
  return step;
}

}  // namespace sluice::engine
