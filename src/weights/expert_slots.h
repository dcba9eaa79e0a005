// The slots of the expert banks, and what is in each: no reads, no lock. ExpertBanks holds its
// mutex around every call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "weights/blocks.h"
#include "weights/expert_activity.h"
#include "weights/expert_use.h"
#include "weights/placement.h"

namespace sluice::weights {

/// What a slot holds. The states and the ways between them: expert_banks.h.
struct ExpertSlot {
  enum class State : std::uint8_t { empty, loading, ready, gone };
  enum class Guess : std::uint8_t { none, open, right };

  State state = State::empty;
  std::int32_t expert = -1;
  std::int32_t layer = -1;
  bool pinned = false;
  ExpertActivity::LastUse last_use = ExpertActivity::LastUse::none;
  bool dropped = false;             ///< to be emptied once its reads have come
  Guess guess = Guess::none;        ///< how it came here, and whether it was asked for since
  std::uint64_t guessed_bytes = 0;  ///< that arrived while the guess was open
  std::uint8_t reads_left = 0;
  std::optional<Error> error;
  std::array<const std::byte*, kMaxParts> part{};
};

/// Slots [0, waves()) are shared by all layers; the banks of the layers follow.
class ExpertSlots {
 public:
  ExpertSlots(const Blocks& blocks, const Placement& placement);

  std::size_t size() const { return slots_.size(); }
  std::size_t waves() const { return waves_; }
  bool is_wave(std::size_t slot) const { return slot < waves_; }
  ExpertSlot& operator[](std::size_t slot) { return slots_[slot]; }

  /// Where the expert is, or is on its way to.
  std::optional<std::size_t> find(std::size_t layer, std::int32_t expert) const;
  /// A slot for an expert that is needed: in its layer's bank, else a free wave slot. Nothing when
  /// all of them are in use.
  std::optional<std::size_t> slot_for(std::size_t layer, std::int32_t expert) const;
  /// A slot for one that may be needed, which takes no room from those in `keep`.
  std::optional<std::size_t> slot_for_guess(std::size_t layer, std::int32_t expert,
                                            std::span<const std::int32_t> keep) const;
  /// The bank slot whose memory is missed least: an empty one, else the least used one.
  std::optional<std::size_t> least_used() const;

  /// Puts the expert into a slot that is neither pinned nor loading, in whose place it comes: its
  /// reads are under way.
  ExpertSlot& take(std::size_t slot, std::size_t layer, std::int32_t expert);
  /// Forgets what is in the slot.
  void empty(std::size_t slot);
  /// Tells who watches what is true of the slot's expert now.
  void note(const ExpertSlot& slot) const;
  /// `activity` must outlive the slots.
  void watch_with(ExpertActivity& activity) { activity_ = &activity; }

  /// The experts are used once more, and all earlier uses of the layer count less.
  void count_use(std::size_t layer, std::span<const std::int32_t> experts);
  ExpertUse use() const;
  /// `use` has the size of this model's.
  void start_from(const ExpertUse& use);

 private:
  struct Layer {
    std::size_t first_slot = 0;  // of its bank
    std::size_t slots = 0;
    std::vector<std::int32_t> slot_of;  // by expert, -1: not in memory
    std::vector<float> use;             // by expert: uses, older ones count less
  };

  std::optional<std::size_t> bank_slot_for(std::size_t layer, std::int32_t expert,
                                           std::span<const std::int32_t> keep) const;

  std::size_t waves_;
  std::vector<Layer> layers_;
  std::vector<ExpertSlot> slots_;
  ExpertActivity* activity_ = nullptr;
};

}  // namespace sluice::weights
