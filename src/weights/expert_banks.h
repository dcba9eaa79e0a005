// Routed experts in memory: banks per layer that keep the most used, and wave slots that all
// layers share for the rest.
//
// States of a slot: empty -> loading (its reads are under way) -> ready -> empty again when a
// better expert takes its place or, for a wave slot, when released. A slot in use is pinned from
// begin() or its arrival until release(), and is never taken while pinned. Under memory pressure
// a bank's slot that is not pinned becomes gone, and empty again when the room is back.
//
// A guess is an expert that is read before it is asked for, loading or ready without a pin. In a
// bank it stays like any other. In a wave slot it waits for the next begin(), which pins it if it
// was right, and else empties it: at once, or when its last read has come (then it is dropped).
//
// Locking: one mutex guards all state. It is never held while the reader is called, and a
// completion (which comes on a reader's thread) takes it only to note that a read has come. One
// thread, the pass's, calls everything else.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/ledger.h"
#include "base/result.h"
#include "io/reader.h"
#include "weights/blocks.h"
#include "weights/expert_activity.h"
#include "weights/expert_slots.h"
#include "weights/expert_use.h"
#include "weights/placement.h"

namespace sluice::weights {

/// An expert in memory. `part[i]` has the layer's part_bytes[i] bytes, any alignment.
struct ReadyExpert {
  std::int32_t id = 0;
  std::array<const std::byte*, kMaxParts> part{};
  std::size_t slot = 0;
};

/// The label of an expert's reads.
constexpr std::uint64_t label_of(std::size_t layer, std::int32_t expert) {
  return std::uint64_t{layer} << 32 | static_cast<std::uint32_t>(expert);
}

struct ExpertStatistics {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t guesses = 0;             ///< experts whose reads were started by guess()
  std::uint64_t guesses_used = 0;        ///< of them asked for later
  std::uint64_t guessed_bytes = 0;       ///< that arrived for guesses
  std::uint64_t guessed_bytes_used = 0;  ///< of them, for guesses that were asked for later
  std::uint64_t gone_bytes = 0;          ///< of bank slots, given back to the system at present
};

class ExpertBanks final : public io::CompletionSink {
 public:
  /// Allocates the slots. `blocks`, `placement` and `reader` must outlive the banks.
  static Result<std::unique_ptr<ExpertBanks>> create(const Blocks& blocks,
                                                     const Placement& placement, io::Reader& reader,
                                                     MemoryLedger& ledger);
  ~ExpertBanks();

  /// Asks for the experts `ids` (distinct, ascending) of a layer. The reads of those that are not
  /// in memory start at once, as many as there are slots for; the others follow in waves as
  /// experts are released. All must be taken with next() and released before the next begin().
  void begin(std::size_t layer, std::span<const std::int32_t> ids);

  /// The next expert that is there: hits first, then in order of arrival. Blocks when none is.
  /// Fails with ErrorKind::drive: an expert is never skipped.
  Result<ReadyExpert> next();

  /// The arithmetic is done with it.
  void release(const ReadyExpert& expert);

  /// The next begin() is expected to be of this layer and to ask for these experts, most certain
  /// first. Those that are not in memory are read with idle drive time, as far as there are empty
  /// slots, slots with less used experts, or half of the wave slots. Call it between a last
  /// release() and a begin().
  void guess(std::size_t layer, std::span<const std::int32_t> ids);

  /// Drops what is under way after an error, and all pins.
  void abort();

  /// Gives the memory of the least used experts' slots back to the system until `bytes` are freed
  /// or the banks are empty. Returns the bytes. Call it where guess() may be called.
  std::uint64_t shed(std::uint64_t bytes);
  /// Takes back up to `bytes` of what was shed. Returns the bytes.
  std::uint64_t regrow(std::uint64_t bytes);

  ExpertUse use() const;
  /// Starts from what an earlier run found. `use` has the size of this model's.
  void start_from(const ExpertUse& use);

  /// Tells `activity`, which must outlive the banks, what happens. Before the first begin().
  void watch_with(ExpertActivity& activity) { slots_.watch_with(activity); }

  ExpertStatistics statistics() const;  ///< may be called from any thread
  /// Time that next() waited for bytes, in seconds.
  double wait_s() const { return wait_s_; }

  void complete(io::Completion completion) noexcept override;

 private:
  using State = ExpertSlot::State;
  using Guess = ExpertSlot::Guess;

  ExpertBanks(const Blocks& blocks, const Placement& placement, io::Reader& reader);
  bool pin(std::size_t slot);
  void drop_open_guesses();
  void start_waiting();
  void load(std::size_t layer, std::int32_t expert, std::size_t slot, io::Priority priority);
  void count_guess(ExpertSlot& slot, std::uint64_t bytes);

  const Blocks& blocks_;
  io::Reader& reader_;
  const std::uint64_t slot_bytes_;
  Buffer room_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // a slot arrived or became empty
  ExpertSlots slots_;
  std::deque<std::size_t> arrived_;  // slots that are there and not yet taken

  std::size_t layer_ = 0;             // of the last begin()
  std::deque<std::int32_t> waiting_;  // experts that have no slot yet
  std::vector<io::ReadRequest> requests_;
  std::vector<std::uint64_t> promoted_;  // tags
  ExpertStatistics statistics_;
  double wait_s_ = 0;
};

}  // namespace sluice::weights
