#include "weights/expert_banks.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "base/size.h"
#include "weights/expert_reads.h"

namespace sluice::weights {
namespace {

// A use counts half after about this many passes.
constexpr float kUseDecay = 0.95f;

}  // namespace

ExpertBanks::ExpertBanks(const Blocks& blocks, const Placement& placement, io::Reader& reader)
    : blocks_(blocks),
      reader_(reader),
      slot_bytes_(placement.slot_bytes),
      wave_slots_(placement.wave_slots) {
  layers_.resize(blocks.expert_layers.size());
  std::size_t slots = wave_slots_;
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

Result<std::unique_ptr<ExpertBanks>> ExpertBanks::create(const Blocks& blocks,
                                                         const Placement& placement,
                                                         io::Reader& reader, MemoryLedger& ledger) {
  std::unique_ptr<ExpertBanks> banks(new ExpertBanks(blocks, placement, reader));
  SLUICE_ASSIGN(banks->room_, Buffer::allocate(banks->slots_.size() * banks->slot_bytes_,
                                               Tenant::experts, ledger));
  return banks;
}

ExpertBanks::~ExpertBanks() { reader_.cancel(*this); }

void ExpertBanks::begin(std::size_t layer, std::span<const std::int32_t> ids) {
  {
    const std::scoped_lock lock(mutex_);
    SLUICE_CHECK(waiting_.empty() && arrived_.empty());
    layer_ = layer;
    count_use(ids);
    for (const std::int32_t id : ids) {  // pin all hits before any miss looks for a victim
      const std::int32_t slot = layers_[layer].slot_of[static_cast<std::size_t>(id)];
      if (slot < 0) {
        waiting_.push_back(id);
        continue;
      }
      slots_[static_cast<std::size_t>(slot)].pinned = true;
      arrived_.push_back(static_cast<std::size_t>(slot));
    }
    statistics_.hits += arrived_.size();
    statistics_.misses += waiting_.size();
  }
  start_waiting();
}

void ExpertBanks::count_use(std::span<const std::int32_t> ids) {
  for (float& use : layers_[layer_].use) use *= kUseDecay;
  for (const std::int32_t id : ids) layers_[layer_].use[static_cast<std::size_t>(id)] += 1.0f;
}

/// A slot for an expert of the layer: an empty one of its bank; the least used one of its bank, if
/// less used than the newcomer; else a free wave slot. Nothing when all of them are in use.
std::optional<std::size_t> ExpertBanks::slot_for(std::int32_t expert) {
  const Layer& layer = layers_[layer_];
  const float worth = layer.use[static_cast<std::size_t>(expert)];
  std::optional<std::size_t> victim;
  float least = worth;
  for (std::size_t slot = layer.first_slot; slot < layer.first_slot + layer.slots; ++slot) {
    if (slots_[slot].state == State::empty) return slot;
    if (slots_[slot].pinned) continue;
    const float use = layer.use[static_cast<std::size_t>(slots_[slot].expert)];
    if (use < least) {
      least = use;
      victim = slot;
    }
  }
  if (victim) return victim;
  for (std::size_t slot = 0; slot < wave_slots_; ++slot) {
    if (slots_[slot].state == State::empty) return slot;
  }
  return std::nullopt;
}

void ExpertBanks::start_waiting() {
  {
    const std::scoped_lock lock(mutex_);
    requests_.clear();
    while (!waiting_.empty()) {
      const auto slot = slot_for(waiting_.front());
      if (!slot) break;
      load(waiting_.front(), *slot);
      waiting_.pop_front();
    }
  }
  if (!requests_.empty()) reader_.submit(requests_);
}

/// Gives the slot to the expert and adds its reads to requests_.
void ExpertBanks::load(std::int32_t expert, std::size_t index) {
  Slot& slot = slots_[index];
  SLUICE_CHECK(!slot.pinned && slot.state != State::loading);
  Layer& layer = layers_[layer_];
  if (slot.expert >= 0) layer.slot_of[static_cast<std::size_t>(slot.expert)] = -1;
  const ExpertLayer& block = blocks_.expert_layers[layer_];
  const PartReads reads = reads_of(block, block.experts[static_cast<std::size_t>(expert)]);
  slot.state = State::loading;
  slot.expert = expert;
  slot.layer = static_cast<std::int32_t>(layer_);
  slot.pinned = true;
  slot.error.reset();
  slot.reads_left = static_cast<std::uint8_t>(reads.size());
  if (!is_wave(index)) {
    layer.slot_of[static_cast<std::size_t>(expert)] = static_cast<std::int32_t>(index);
  }
  std::byte* room = room_.data() + index * slot_bytes_;
  for (std::size_t read = 0; read < reads.size(); ++read) {
    const std::uint64_t bytes =
        round_up(reader_.room_for(reads[read].extent.length), io::kRoomAlignment);
    requests_.push_back({reads[read].extent,
                         {room, bytes},
                         io::Priority::needed,
                         io::Purpose::expert,
                         index * kMaxParts + read,
                         this,
                         label_of(layer_, expert)});
    room += bytes;
  }
}

void ExpertBanks::complete(io::Completion completion) noexcept {
  const std::scoped_lock lock(mutex_);
  const std::size_t index = completion.tag / kMaxParts;
  const std::size_t read = completion.tag % kMaxParts;
  Slot& slot = slots_[index];
  if (completion.bytes) {
    const ExpertLayer& block = blocks_.expert_layers[static_cast<std::size_t>(slot.layer)];
    const PartReads reads = reads_of(block, block.experts[static_cast<std::size_t>(slot.expert)]);
    const std::byte* data = completion.bytes->data();
    for (std::size_t i = 0; i < reads[read].count; ++i) {
      const std::size_t part = reads.part_at(reads[read].first + i);
      slot.part[part] = data;
      data += block.part_bytes[part];
    }
  } else if (!slot.error) {
    slot.error = std::move(completion.bytes).error();
  }
  if (--slot.reads_left > 0) return;
  arrived_.push_back(index);
  arrived_signal_.notify_all();
}

Result<ReadyExpert> ExpertBanks::next() {
  std::unique_lock lock(mutex_);
  if (arrived_.empty()) {
    const auto start = Clock::now();
    arrived_signal_.wait(lock, [this] { return !arrived_.empty(); });
    wait_s_ += seconds_since(start);
  }
  const std::size_t index = arrived_.front();
  arrived_.pop_front();
  Slot& slot = slots_[index];
  if (slot.error) {
    Error error = *slot.error;
    error.message += fmt::format(" (layer {}, expert {})", slot.layer, slot.expert);
    return tl::unexpected(std::move(error));
  }
  slot.state = State::ready;
  return ReadyExpert{slot.expert, slot.part, index};
}

void ExpertBanks::release(const ReadyExpert& expert) {
  {
    const std::scoped_lock lock(mutex_);
    Slot& slot = slots_[expert.slot];
    SLUICE_CHECK(slot.pinned && slot.state == State::ready && slot.expert == expert.id);
    slot.pinned = false;
    if (is_wave(expert.slot)) {
      slot.state = State::empty;
      slot.expert = -1;
    }
    if (waiting_.empty()) return;
  }
  start_waiting();
}

void ExpertBanks::abort() {
  reader_.cancel(*this);
  const std::scoped_lock lock(mutex_);
  waiting_.clear();
  arrived_.clear();
  for (std::size_t index = 0; index < slots_.size(); ++index) {
    Slot& slot = slots_[index];
    slot.pinned = false;
    const bool keep = slot.state == State::ready && !is_wave(index);
    if (keep || slot.expert < 0) continue;
    if (!is_wave(index)) {
      layers_[static_cast<std::size_t>(slot.layer)].slot_of[static_cast<std::size_t>(slot.expert)] =
          -1;
    }
    slot = Slot{};
  }
}

}  // namespace sluice::weights
