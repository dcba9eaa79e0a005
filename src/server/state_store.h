// Sequences of earlier requests, so that what continues them is not computed again.
#pragma once

#include <cstdint>
#include <list>
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
    Buffer room;
    std::size_t state_bytes = 0;  ///< of room
    std::vector<float> logits;    ///< of the last position; may be empty
    std::uint64_t bytes = 0;      ///< charged

    std::span<const std::byte> state() const { return room.bytes().first(state_bytes); }
  };

  /// Charged to Tenant::state of the ledger, which must outlive the store.
  StateStore(std::uint64_t room, MemoryLedger& ledger) : room_(room), ledger_(ledger) {}

  /// The longest saved sequence that `ids` begin with; one of the same length only with its logits.
  /// Valid until the next save().
  const Saved* find(std::span<const std::int32_t> ids);

  /// Keeps the sequence, which holds `ids`, if there is room. `logits` may be empty.
  void save(const model::SequenceState& sequence, std::vector<std::int32_t> ids,
            std::span<const float> logits);

  std::size_t count() const { return saved_.size(); }
  std::uint64_t bytes() const { return used_; }

 private:
  void drop_last();

  const std::uint64_t room_;
  MemoryLedger& ledger_;
  std::uint64_t used_ = 0;
  std::list<Saved> saved_;  // what was used last comes first
};

/// True if `ids` begin with `start`.
bool begin_with(std::span<const std::int32_t> ids, std::span<const std::int32_t> start);

}  // namespace sluice::server
