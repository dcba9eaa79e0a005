#include "weights/expert_banks.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/size.h"
#include "weights/expert_reads.h"

namespace sluice::weights {

ExpertBanks::ExpertBanks(const Blocks& blocks, const Placement& placement, io::Reader& reader)
    : blocks_(blocks),
      reader_(reader),
      slot_bytes_(placement.slot_bytes),
      slots_(blocks, placement) {}

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
    slots_.count_use(layer, ids);
    for (const std::int32_t id : ids) {  // pin all hits before any miss looks for a victim
      const auto slot = slots_.find(layer, id);
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

/// Pins what find() found; whether it is there already.
bool ExpertBanks::pin(std::size_t index) {
  ExpertSlot& slot = slots_[index];
  slot.pinned = true;
  if (slot.guess == Guess::open) {
    slot.guess = Guess::right;
    ++statistics_.guesses_used;
    statistics_.guessed_bytes_used += slot.guessed_bytes;
  }
  if (slot.state == State::ready) {
    arrived_.push_back(index);
    slot.last_use = ExpertActivity::LastUse::from_memory;
    slots_.note(slot);
    return true;
  }
  for (std::size_t read = 0; read < kMaxParts; ++read) {  // those that have come do not mind
    promoted_.push_back(index * kMaxParts + read);
  }
  return false;
}

/// Guesses in wave slots are good for one begin() only.
void ExpertBanks::drop_open_guesses() {
  for (std::size_t wave = 0; wave < slots_.waves(); ++wave) {
    ExpertSlot& slot = slots_[wave];
    if (slot.guess != Guess::open || slot.pinned) continue;
    if (slot.state == State::ready) slots_.empty(wave);
    slot.dropped = slot.state == State::loading;
  }
}

void ExpertBanks::guess(std::size_t layer, std::span<const std::int32_t> ids) {
  {
    const std::scoped_lock lock(mutex_);
    SLUICE_CHECK(waiting_.empty() && arrived_.empty());
    requests_.clear();
    for (const std::int32_t id : ids) {
      if (slots_.find(layer, id)) continue;
      const auto slot = slots_.slot_for_guess(layer, id, ids);
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
      const auto slot = slots_.slot_for(layer_, waiting_.front());
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
  const ExpertLayer& block = blocks_.expert_layers[layer];
  const PartReads reads = reads_of(block, block.experts[static_cast<std::size_t>(expert)]);
  ExpertSlot& slot = slots_.take(index, layer, expert);
  slot.pinned = priority == io::Priority::needed;
  slot.guess = priority == io::Priority::guess ? Guess::open : Guess::none;
  slot.reads_left = static_cast<std::uint8_t>(reads.size());
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

void ExpertBanks::count_guess(ExpertSlot& slot, std::uint64_t bytes) {
  if (slot.guess == Guess::none) return;
  statistics_.guessed_bytes += bytes;
  if (slot.guess == Guess::right) statistics_.guessed_bytes_used += bytes;
  slot.guessed_bytes += bytes;
}

void ExpertBanks::complete(io::Completion completion) noexcept {
  const std::scoped_lock lock(mutex_);
  const std::size_t index = completion.tag / kMaxParts;
  const std::size_t read = completion.tag % kMaxParts;
  ExpertSlot& slot = slots_[index];
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
    slots_.empty(index);  // if a guess cannot be read, that is told when it is needed
  } else {
    slot.state = State::ready;
    slots_.note(slot);
  }
  changed_.notify_all();
}

Result<ReadyExpert> ExpertBanks::next() {
  std::unique_lock lock(mutex_);
  const auto start = Clock::now();
  while (arrived_.empty()) {
    // A dropped guess may have left a slot to one that waits.
    if (!waiting_.empty() && slots_.slot_for(layer_, waiting_.front())) {
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
  ExpertSlot& slot = slots_[index];
  if (slot.error) {
    Error error = *slot.error;
    error.message += fmt::format(" (layer {}, expert {})", slot.layer, slot.expert);
    return tl::unexpected(std::move(error));
  }
  if (slot.state == State::loading) {
    slot.state = State::ready;
    slot.last_use = ExpertActivity::LastUse::from_drive;
    slots_.note(slot);
  }
  return ReadyExpert{slot.expert, slot.part, index};
}

void ExpertBanks::release(const ReadyExpert& expert) {
  {
    const std::scoped_lock lock(mutex_);
    ExpertSlot& slot = slots_[expert.slot];
    SLUICE_CHECK(slot.pinned && slot.state == State::ready && slot.expert == expert.id);
    slot.pinned = false;
    if (slots_.is_wave(expert.slot)) slots_.empty(expert.slot);
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
    ExpertSlot& slot = slots_[index];
    slot.pinned = false;
    const bool keep = slot.state == State::ready && !slots_.is_wave(index);
    if (!keep && slot.expert >= 0) slots_.empty(index);
  }
}

std::uint64_t ExpertBanks::shed(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  std::uint64_t freed = 0;
  while (freed < bytes) {
    const auto slot = slots_.least_used();
    if (!slot) break;
    slots_.empty(*slot);
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
  for (std::size_t index = slots_.waves(); index < slots_.size(); ++index) {
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
  return slots_.use();
}

void ExpertBanks::start_from(const ExpertUse& use) {
  const std::scoped_lock lock(mutex_);
  slots_.start_from(use);
}

ExpertStatistics ExpertBanks::statistics() const {
  const std::scoped_lock lock(mutex_);
  return statistics_;
}

}  // namespace sluice::weights
