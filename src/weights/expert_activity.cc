#include "weights/expert_activity.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::weights {
namespace {

std::size_t most_experts(const Blocks& blocks) {
  std::size_t most = 0;
  for (const ExpertLayer& layer : blocks.expert_layers) most = std::max(most, layer.experts.size());
  return most;
}

std::uint32_t bits_of(ExpertActivity::State state) {
  std::uint32_t bits = 0;
  if (state.in_memory) bits |= ExpertActivity::kInMemory;
  if (state.reading) bits |= ExpertActivity::kReading;
  if (state.last_use == ExpertActivity::LastUse::from_memory) bits |= ExpertActivity::kFromMemory;
  if (state.last_use == ExpertActivity::LastUse::from_drive) bits |= ExpertActivity::kFromDrive;
  return bits;
}

}  // namespace

ExpertActivity::ExpertActivity(const Blocks& blocks)
    : layers_(blocks.expert_layers.size()),
      experts_(most_experts(blocks)),
      cells_(layers_ * experts_) {
  for (const ExpertLayer& layer : blocks.expert_layers) count_ += layer.experts.size();
}

std::uint64_t ExpertActivity::memory_bytes(const Blocks& blocks) {
  const std::uint64_t cells = blocks.expert_layers.size() * most_experts(blocks);
  return cells * (sizeof(std::uint64_t) + sizeof(std::uint32_t));
}

void ExpertActivity::note(std::size_t layer, std::int32_t expert, State state) {
  const auto column = static_cast<std::size_t>(expert);
  SLUICE_CHECK(layer < layers_ && column < experts_);
  const std::uint64_t moment = now_.load(std::memory_order_relaxed) + 1;
  cells_[layer * experts_ + column].store(moment << kStateBits | bits_of(state),
                                          std::memory_order_relaxed);
  now_.store(moment, std::memory_order_release);  // whoever reads it sees the cell
}

ExpertActivity::Changes ExpertActivity::since(std::uint64_t since) const {
  constexpr std::uint64_t kMask = (1U << kStateBits) - 1;
  Changes changes;
  changes.now = now_.load(std::memory_order_acquire);
  if (since > changes.now) since = 0;
  // What changes meanwhile is left for the next time, so there can only be less to list than was
  // counted. A list that grew by doubling would take more memory than was planned.
  const auto is_asked = [&](std::uint64_t word) {
    return word >> kStateBits > since && word >> kStateBits <= changes.now;
  };
  const auto count = std::ranges::count_if(
      cells_, [&](const auto& cell) { return is_asked(cell.load(std::memory_order_relaxed)); });
  changes.cells.reserve(static_cast<std::size_t>(count));
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    const std::uint64_t word = cells_[cell].load(std::memory_order_relaxed);
    if (!is_asked(word)) continue;
    changes.cells.push_back(static_cast<std::uint32_t>(cell << kStateBits | (word & kMask)));
  }
  return changes;
}

}  // namespace sluice::weights
