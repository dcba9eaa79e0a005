#include "weights/expert_slots.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace sluice::weights {
namespace {

// A use counts half after about this many passes.
constexpr float kUseDecay = 0.95f;

}  // namespace

ExpertSlots::ExpertSlots(const Blocks& blocks, const Placement& placement)
    : waves_(placement.wave_slots), layers_(blocks.expert_layers.size()) {
  std::size_t slots = waves_;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const std::size_t experts = blocks.expert_layers[layer].experts.size();
    layers_[layer].first_slot = slots;
    layers_[layer].slots = placement.bank_slots[layer];
    layers_[layer].slot_of.assign(experts, -1);
    layers_[layer].use.assign(experts, 0.0f);
    slots += placement.bank_slots[layer];
  }
  slots_.resize(slots);
}

std::optional<std::size_t> ExpertSlots::find(std::size_t layer, std::int32_t expert) const {
  const std::int32_t slot = layers_[layer].slot_of[static_cast<std::size_t>(expert)];
  if (slot >= 0) return static_cast<std::size_t>(slot);
  for (std::size_t wave = 0; wave < waves_; ++wave) {
    const ExpertSlot& each = slots_[wave];
    if (each.guess == ExpertSlot::Guess::open && !each.dropped && each.expert == expert &&
        each.layer == static_cast<std::int32_t>(layer)) {
      return wave;
    }
  }
  return std::nullopt;
}

/// A slot of the layer's bank: an empty one, or the least used one if it is less used than the
/// newcomer and not in `keep`.
std::optional<std::size_t> ExpertSlots::bank_slot_for(std::size_t index, std::int32_t expert,
                                                      std::span<const std::int32_t> keep) const {
  const Layer& layer = layers_[index];
  std::optional<std::size_t> victim;
  float least = layer.use[static_cast<std::size_t>(expert)];
  for (std::size_t slot = layer.first_slot; slot < layer.first_slot + layer.slots; ++slot) {
    if (slots_[slot].state == ExpertSlot::State::empty) return slot;
    if (slots_[slot].pinned || slots_[slot].state != ExpertSlot::State::ready) continue;
    const float use = layer.use[static_cast<std::size_t>(slots_[slot].expert)];
    if (use >= least || std::ranges::find(keep, slots_[slot].expert) != keep.end()) continue;
    least = use;
    victim = slot;
  }
  return victim;
}

std::optional<std::size_t> ExpertSlots::slot_for(std::size_t layer, std::int32_t expert) const {
  if (const auto slot = bank_slot_for(layer, expert, {})) return slot;
  for (std::size_t slot = 0; slot < waves_; ++slot) {
    if (slots_[slot].state == ExpertSlot::State::empty) return slot;
  }
  return std::nullopt;
}

std::optional<std::size_t> ExpertSlots::slot_for_guess(std::size_t layer, std::int32_t expert,
                                                       std::span<const std::int32_t> keep) const {
  if (const auto slot = bank_slot_for(layer, expert, keep)) return slot;
  std::size_t guesses = 0;
  std::optional<std::size_t> found;
  for (std::size_t slot = 0; slot < waves_; ++slot) {
    if (slots_[slot].state != ExpertSlot::State::empty) {
      ++guesses;
    } else if (!found) {
      found = slot;
    }
  }
  return guesses < waves_ / 2 ? found : std::nullopt;
}

std::optional<std::size_t> ExpertSlots::least_used() const {
  std::optional<std::size_t> found;
  float least = std::numeric_limits<float>::infinity();
  for (std::size_t index = waves_; index < slots_.size(); ++index) {
    const ExpertSlot& slot = slots_[index];
    if (slot.state == ExpertSlot::State::empty) return index;
    if (slot.state != ExpertSlot::State::ready || slot.pinned) continue;
    const float use =
        layers_[static_cast<std::size_t>(slot.layer)].use[static_cast<std::size_t>(slot.expert)];
    if (use >= least) continue;
    least = use;
    found = index;
  }
  return found;
}

ExpertSlot& ExpertSlots::take(std::size_t index, std::size_t layer, std::int32_t expert) {
  SLUICE_CHECK(!slots_[index].pinned && slots_[index].state != ExpertSlot::State::loading);
  empty(index);
  ExpertSlot& slot = slots_[index];
  slot.state = ExpertSlot::State::loading;
  slot.expert = expert;
  slot.layer = static_cast<std::int32_t>(layer);
  if (!is_wave(index)) {
    layers_[layer].slot_of[static_cast<std::size_t>(expert)] = static_cast<std::int32_t>(index);
  }
  note(slot);
  return slot;
}

void ExpertSlots::empty(std::size_t index) {
  ExpertSlot& slot = slots_[index];
  if (!is_wave(index) && slot.expert >= 0) {
    Layer& layer = layers_[static_cast<std::size_t>(slot.layer)];
    layer.slot_of[static_cast<std::size_t>(slot.expert)] = -1;
  }
  slot.state = ExpertSlot::State::empty;
  // Who leaves a bank was used long ago, who leaves a wave slot just now.
  if (!is_wave(index)) slot.last_use = ExpertActivity::LastUse::none;
  note(slot);
  slot = ExpertSlot{};
}

void ExpertSlots::note(const ExpertSlot& slot) const {
  if (activity_ == nullptr || slot.expert < 0) return;
  activity_->note(static_cast<std::size_t>(slot.layer), slot.expert,
                  {slot.state == ExpertSlot::State::ready, slot.state == ExpertSlot::State::loading,
                   slot.last_use});
}

void ExpertSlots::count_use(std::size_t layer, std::span<const std::int32_t> experts) {
  for (float& use : layers_[layer].use) use *= kUseDecay;
  for (const std::int32_t expert : experts) {
    layers_[layer].use[static_cast<std::size_t>(expert)] += 1.0f;
  }
}

ExpertUse ExpertSlots::use() const {
  ExpertUse use;
  for (const Layer& layer : layers_) use.push_back(layer.use);
  return use;
}

void ExpertSlots::start_from(const ExpertUse& use) {
  SLUICE_CHECK(use.size() == layers_.size());
  for (std::size_t layer = 0; layer < use.size(); ++layer) {
    SLUICE_CHECK(use[layer].size() == layers_[layer].use.size());
    layers_[layer].use = use[layer];
  }
}

}  // namespace sluice::weights
