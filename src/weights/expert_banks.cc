#include "weights/expert_banks.h"

#include <algorithm>
#include <limits>

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
    promoted_.clear();
    count_use(ids);
    for (const std::int32_t id : ids) {  // pin all hits before any miss looks for a victim
      const auto slot = find(layer, id);
      if (!slot) {
        waiting_.push_back(id);
        ++statistics_.misses;
      } else {
        ++(pin(*slot) ? statistics_.hits : statistics_.misses);
      }
    }
    drop_open_guesses();
  }
  start_waiting();
  for (const std::uint64_t tag : promoted_) reader_.promote(*this, tag);
}

void ExpertBanks::count_use(std::span<const std::int32_t> ids) {
  for (float& use : layers_[layer_].use) use *= kUseDecay;
  for (const std::int32_t id : ids) layers_[layer_].use[static_cast<std::size_t>(id)] += 1.0f;
}

/// Where the expert is, or is on its way to.
std::optional<std::size_t> ExpertBanks::find(std::size_t layer, std::int32_t expert) const {
  const std::int32_t slot = layers_[layer].slot_of[static_cast<std::size_t>(expert)];
  if (slot >= 0) return static_cast<std::size_t>(slot);
  for (std::size_t wave = 0; wave < wave_slots_; ++wave) {
    const Slot& each = slots_[wave];
    if (each.guess == Guess::open && !each.dropped && each.expert == expert &&
        each.layer == static_cast<std::int32_t>(layer)) {
      return wave;
    }
  }
  return std::nullopt;
}

/// Pins what find() found; whether it is there already.
bool ExpertBanks::pin(std::size_t index) {
  Slot& slot = slots_[index];
  slot.pinned = true;
  if (slot.guess == Guess::open) {
    slot.guess = Guess::right;
    ++statistics_.guesses_used;
    statistics_.guessed_bytes_used += slot.guessed_bytes;
  }
  if (slot.state == State::ready) {
    arrived_.push_back(index);
    slot.last_use = ExpertActivity::LastUse::from_memory;
    note(slot);
    return true;
  }
  for (std::size_t read = 0; read < kMaxParts; ++read) {  // those that have come do not mind
    promoted_.push_back(index * kMaxParts + read);
  }
  return false;
}

/// Guesses in wave slots are good for one begin() only.
void ExpertBanks::drop_open_guesses() {
  for (std::size_t wave = 0; wave < wave_slots_; ++wave) {
    Slot& slot = slots_[wave];
    if (slot.guess != Guess::open || slot.pinned) continue;
    if (slot.state == State::ready) empty(wave);
    slot.dropped = slot.state == State::loading;
  }
}

/// A slot of the layer's bank: an empty one, or the least used one if it is less used than the
/// newcomer and not in `keep`.
std::optional<std::size_t> ExpertBanks::bank_slot_for(std::size_t index, std::int32_t expert,
                                                      std::span<const std::int32_t> keep) const {
  const Layer& layer = layers_[index];
  std::optional<std::size_t> victim;
  float least = layer.use[static_cast<std::size_t>(expert)];
  for (std::size_t slot = layer.first_slot; slot < layer.first_slot + layer.slots; ++slot) {
    if (slots_[slot].state == State::empty) return slot;
    if (slots_[slot].pinned || slots_[slot].state != State::ready) continue;
    const float use = layer.use[static_cast<std::size_t>(slots_[slot].expert)];
    if (use >= least || std::ranges::find(keep, slots_[slot].expert) != keep.end()) continue;
    least = use;
    victim = slot;
  }
  return victim;
}

/// A slot for an expert of the layer under way: in its bank, else a free wave slot. Nothing when
/// all of them are in use.
std::optional<std::size_t> ExpertBanks::slot_for(std::int32_t expert) const {
  if (const auto slot = bank_slot_for(layer_, expert, {})) return slot;
  for (std::size_t slot = 0; slot < wave_slots_; ++slot) {
    if (slots_[slot].state == State::empty) return slot;
  }
  return std::nullopt;
}

std::optional<std::size_t> ExpertBanks::slot_for_guess(std::size_t layer, std::int32_t expert,
                                                       std::span<const std::int32_t> keep) const {
  if (const auto slot = bank_slot_for(layer, expert, keep)) return slot;
  std::size_t guesses = 0;
  std::optional<std::size_t> found;
  for (std::size_t slot = 0; slot < wave_slots_; ++slot) {
    if (slots_[slot].state != State::empty) ++guesses;
    if (slots_[slot].state == State::empty && !found) found = slot;
  }
  return guesses < wave_slots_ / 2 ? found : std::nullopt;
}

void ExpertBanks::guess(std::size_t layer, std::span<const std::int32_t> ids) {
  {
    const std::scoped_lock lock(mutex_);
    SLUICE_CHECK(waiting_.empty() && arrived_.empty());
    requests_.clear();
    for (const std::int32_t id : ids) {
      if (find(layer, id)) continue;
      const auto slot = slot_for_guess(layer, id, ids);
      if (!slot) break;
      load(layer, id, *slot, io::Priority::guess);
      ++statistics_.guesses;
    }
  }
  if (!requests_.empty()) reader_.submit(requests_);
}

void ExpertBanks::start_waiting() {
  {
    const std::scoped_lock lock(mutex_);
    requests_.clear();
    while (!waiting_.empty()) {
      const auto slot = slot_for(waiting_.front());
      if (!slot) break;
      load(layer_, waiting_.front(), *slot, io::Priority::needed);
      waiting_.pop_front();
    }
  }
  if (!requests_.empty()) reader_.submit(requests_);
}

/// Gives the slot to the expert and adds its reads to requests_.
void ExpertBanks::load(std::size_t layer, std::int32_t expert, std::size_t index,
                       io::Priority priority) {
  SLUICE_CHECK(!slots_[index].pinned && slots_[index].state != State::loading);
  empty(index);
  Slot& slot = slots_[index];
  const ExpertLayer& block = blocks_.expert_layers[layer];
  const PartReads reads = reads_of(block, block.experts[static_cast<std::size_t>(expert)]);
  slot.state = State::loading;
  slot.expert = expert;
  slot.layer = static_cast<std::int32_t>(layer);
  slot.pinned = priority == io::Priority::needed;
  slot.guess = priority == io::Priority::guess ? Guess::open : Guess::none;
  slot.reads_left = static_cast<std::uint8_t>(reads.size());
  if (!is_wave(index)) {
    layers_[layer].slot_of[static_cast<std::size_t>(expert)] = static_cast<std::int32_t>(index);
  }
  note(slot);
  std::byte* room = room_.data() + index * slot_bytes_;
  for (std::size_t read = 0; read < reads.size(); ++read) {
    const std::uint64_t bytes =
        round_up(reader_.room_for(reads[read].extent.length), io::kRoomAlignment);
    requests_.push_back({reads[read].extent,
                         {room, bytes},
                         priority,
                         io::Purpose::expert,
                         index * kMaxParts + read,
                         this,
                         label_of(layer, expert)});
    room += bytes;
  }
}

/// Forgets what is in the slot.
void ExpertBanks::empty(std::size_t index) {
  Slot& slot = slots_[index];
  if (!is_wave(index) && slot.expert >= 0) {
    Layer& layer = layers_[static_cast<std::size_t>(slot.layer)];
    layer.slot_of[static_cast<std::size_t>(slot.expert)] = -1;
  }
  slot.state = State::empty;
  // Who leaves a bank was used long ago, who leaves a wave slot just now.
  if (!is_wave(index)) slot.last_use = ExpertActivity::LastUse::none;
  note(slot);
  slot = Slot{};
}

void ExpertBanks::note(const Slot& slot) const {
  if (activity_ == nullptr || slot.expert < 0) return;
  activity_->note(static_cast<std::size_t>(slot.layer), slot.expert,
                  {slot.state == State::ready, slot.state == State::loading, slot.last_use});
}

void ExpertBanks::count_guess(Slot& slot, std::uint64_t bytes) {
  if (slot.guess == Guess::none) return;
  statistics_.guessed_bytes += bytes;
  if (slot.guess == Guess::right) statistics_.guessed_bytes_used += bytes;
  slot.guessed_bytes += bytes;
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
    count_guess(slot, completion.bytes->size());
  } else if (!slot.error) {
    slot.error = std::move(completion.bytes).error();
  }
  if (--slot.reads_left > 0) return;
  if (slot.pinned) {
    arrived_.push_back(index);
  } else if (slot.dropped || slot.error) {
    empty(index);  // if a guess cannot be read, that is told when it is needed
  } else {
    slot.state = State::ready;
    note(slot);
  }
  changed_.notify_all();
}

Result<ReadyExpert> ExpertBanks::next() {
  std::unique_lock lock(mutex_);
  const auto start = Clock::now();
  while (arrived_.empty()) {
    // A dropped guess may have left a slot to one that waits.
    if (!waiting_.empty() && slot_for(waiting_.front())) {
      lock.unlock();
      start_waiting();
      lock.lock();
      continue;
    }
    changed_.wait(lock);
  }
  wait_s_ += seconds_since(start);
  const std::size_t index = arrived_.front();
  arrived_.pop_front();
  Slot& slot = slots_[index];
  if (slot.error) {
    Error error = *slot.error;
    error.message += fmt::format(" (layer {}, expert {})", slot.layer, slot.expert);
    return tl::unexpected(std::move(error));
  }
  if (slot.state == State::loading) {
    slot.state = State::ready;
    slot.last_use = ExpertActivity::LastUse::from_drive;
    note(slot);
  }
  return ReadyExpert{slot.expert, slot.part, index};
}

void ExpertBanks::release(const ReadyExpert& expert) {
  {
    const std::scoped_lock lock(mutex_);
    Slot& slot = slots_[expert.slot];
    SLUICE_CHECK(slot.pinned && slot.state == State::ready && slot.expert == expert.id);
    slot.pinned = false;
    if (is_wave(expert.slot)) empty(expert.slot);
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
    if (!keep && slot.expert >= 0) empty(index);
  }
}

/// The bank slot whose memory is missed least: an empty one, else the least used one.
std::optional<std::size_t> ExpertBanks::least_used_slot() const {
  std::optional<std::size_t> found;
  float least = std::numeric_limits<float>::infinity();
  for (std::size_t index = wave_slots_; index < slots_.size(); ++index) {
    const Slot& slot = slots_[index];
    if (slot.state == State::empty) return index;
    if (slot.state != State::ready || slot.pinned) continue;
    const float use =
        layers_[static_cast<std::size_t>(slot.layer)].use[static_cast<std::size_t>(slot.expert)];
    if (use >= least) continue;
    least = use;
    found = index;
  }
  return found;
}

std::uint64_t ExpertBanks::shed(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  std::uint64_t freed = 0;
  while (freed < bytes) {
    const auto slot = least_used_slot();
    if (!slot) break;
    empty(*slot);
    slots_[*slot].state = State::gone;
    room_.give_back(*slot * slot_bytes_, slot_bytes_);
    freed += slot_bytes_;
  }
  statistics_.gone_bytes += freed;
  return freed;
}

std::uint64_t ExpertBanks::regrow(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  std::uint64_t taken = 0;
  for (std::size_t index = wave_slots_; index < slots_.size(); ++index) {
    if (slots_[index].state != State::gone) continue;
    if (taken + slot_bytes_ > bytes || !room_.take_back(index * slot_bytes_, slot_bytes_)) break;
    slots_[index].state = State::empty;
    taken += slot_bytes_;
  }
  statistics_.gone_bytes -= taken;
  return taken;
}

ExpertUse ExpertBanks::use() const {
  const std::scoped_lock lock(mutex_);
  ExpertUse use;
  for (const Layer& layer : layers_) use.push_back(layer.use);
  return use;
}

void ExpertBanks::start_from(const ExpertUse& use) {
  const std::scoped_lock lock(mutex_);
  SLUICE_CHECK(use.size() == layers_.size());
  for (std::size_t layer = 0; layer < use.size(); ++layer) {
    SLUICE_CHECK(use[layer].size() == layers_[layer].use.size());
    layers_[layer].use = use[layer];
  }
}

ExpertStatistics ExpertBanks::statistics() const {
  const std::scoped_lock lock(mutex_);
  return statistics_;
}

}  // namespace sluice::weights
