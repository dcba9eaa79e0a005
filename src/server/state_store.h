// Sequences of earlier requests, so that what continues them is not computed again.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/ledger.h"
#include "model/network.h"

namespace sluice::server {

/// Keeps what was used last within a number of bytes. A recurrent state cannot be wound back, so a
/// saved sequence serves prompts that begin with all of its ids.
class StateStore {
 public:
  struct Saved {
    std::vector<std::int32_t> ids;
    std::uint32_t adapter = 0;  ///< of the sequence
    Buffer room;
    std::size_t state_bytes = 0;                            ///< of room
    std::vector<float> logits;                              ///< of the last position; may be empty
    std::uint64_t bytes = 0;                                ///< charged
    std::shared_ptr<std::atomic<std::uint64_t>> used = {};  ///< of the store

    Saved() = default;
    Saved(const Saved&) = delete;
    Saved& operator=(const Saved&) = delete;
    ~Saved() {
      if (used) *used -= bytes;
    }
    std::span<const std::byte> state() const { return room.bytes().first(state_bytes); }
  };
  using Shared = std::shared_ptr<const Saved>;

  /// Charged to Tenant::state of the ledger, which must outlive the store and all that it saved.
  StateStore(std::uint64_t room, MemoryLedger& ledger) : room_(room), ledger_(ledger) {}

  /// The longest saved sequence of the adapter that `ids` begin with, or null; one of the same
  /// length only with its logits.
  Shared find(std::span<const std::int32_t> ids, std::uint32_t adapter);

  /// Keeps the sequence, which holds `ids`. `logits` may be empty. Null if there is no room. Parts
  /// of `ids` are the first to make room, from now on: the longest first, since a shorter one
  /// serves more of the prompts that differ in their tails.
  Shared save(const model::SequenceState& sequence, std::span<const std::int32_t> ids,
              std::span<const float> logits);
  /// Keeps the sequence in the middle of `prompt`, of which it holds `count` ids, for whoever asks
  /// for the prompt again because its reading was given up, or for one with another tail. The two
  /// longest parts of a prompt stay, the longest alone where two would push out others: a prompt
  /// under way takes no more from others than it will when it is kept whole. A part that was found
  /// for another prompt has shown its worth, and is from then on kept like a whole one.
  Shared save_part(const model::SequenceState& sequence, std::span<const std::int32_t> prompt,
                   std::size_t count);
  /// What save() does for the caller alone: find() does not know it. Its room is the store's all
  /// the same.
  Shared copy(const model::SequenceState& sequence, std::span<const std::int32_t> ids,
              std::span<const float> logits);

  std::size_t count() const { return saved_.size(); }
  std::uint64_t bytes() const { return *used_; }

 private:
  struct Entry {
    Shared saved;
    std::optional<std::uint64_t> part_of = {};  // checksum of the prompt's ids
  };
  using Place = std::list<Entry>::iterator;
  std::vector<Place> parts_of(std::span<const std::int32_t> ids, std::uint32_t adapter);

  const std::uint64_t room_;
  MemoryLedger& ledger_;
  // What was handed out counts until it goes, which may be on another thread.
  const std::shared_ptr<std::atomic<std::uint64_t>> used_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::list<Entry> saved_;  // what makes room first comes last
};

/// True if `ids` begin with `start`.
bool begin_with(std::span<const std::int32_t> ids, std::span<const std::int32_t> start);

}  // namespace sluice::server
