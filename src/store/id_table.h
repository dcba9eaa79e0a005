// A hash table of ids whose keys lie elsewhere: four bytes per slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sluice::store {

/// Holds the ids 0, 1, 2, ... by the hash of their keys (open addressing, linear probing). The
/// owner keeps the keys and answers how they compare and hash. A slot has room for more than an
/// id: the rest are bits of the hash, so that keys, which lie far apart, are mostly not looked at
/// in vain.
class IdTable {
 public:
  static constexpr std::uint32_t kMaxIds = 1u << 30;

  /// The id with this hash for which equal(id) holds.
  template <class Equal>
  std::optional<std::uint32_t> find(std::uint64_t hash, Equal equal) const {
    if (slots_.empty()) return std::nullopt;
    const std::uint32_t tag = tag_of(hash);
    for (std::size_t slot = first(hash); slots_[slot] != kFree; slot = next(slot)) {
      const std::uint32_t id = slots_[slot] & id_mask();
      if ((slots_[slot] & ~id_mask()) == tag && equal(id)) return id;
    }
    return std::nullopt;
  }

  /// Takes room for this many ids at once. Only while the table is empty.
  void reserve(std::uint32_t ids) {
    std::size_t slots = kFirstSlots;
    while (3 * slots < 4 * (std::size_t{ids} + 1)) slots *= 2;
    slots_.assign(slots, kFree);
  }

  /// Adds the next id, whose key has this hash. hash_of(id) is asked for the ids before it when the
  /// table grows. At most kMaxIds.
  template <class HashOf>
  void insert_next(std::uint64_t hash, HashOf hash_of) {
    if (4 * (std::size_t{count_} + 1) > 3 * slots_.size()) grow(hash_of);
    place(hash, count_);
    ++count_;
  }

  std::uint64_t memory_bytes() const { return slots_.capacity() * sizeof(std::uint32_t); }

 private:
  static constexpr std::uint32_t kFree = ~std::uint32_t{0};
  static constexpr std::size_t kFirstSlots = 64;

  // Fewer ids than slots, and a power of two of slots: an id fits below the number of slots, and
  // is never all ones there, so no used slot looks free.
  std::uint32_t id_mask() const { return static_cast<std::uint32_t>(slots_.size() - 1); }
  std::uint32_t tag_of(std::uint64_t hash) const {
    return static_cast<std::uint32_t>(hash >> 32) & ~id_mask();
  }
  std::size_t first(std::uint64_t hash) const {
    return static_cast<std::uint32_t>(hash) & id_mask();
  }
  std::size_t next(std::size_t slot) const { return (slot + 1) & id_mask(); }

  void place(std::uint64_t hash, std::uint32_t id) {
    std::size_t slot = first(hash);
    while (slots_[slot] != kFree) slot = next(slot);
    slots_[slot] = tag_of(hash) | id;
  }

  template <class HashOf>
  void grow(HashOf hash_of) {
    const std::size_t slots = slots_.empty() ? kFirstSlots : 2 * slots_.size();
    slots_ = {};  // before the new ones: the two need not be held at once
    slots_.assign(slots, kFree);
    for (std::uint32_t id = 0; id < count_; ++id) place(hash_of(id), id);
  }

  std::vector<std::uint32_t> slots_;
  std::uint32_t count_ = 0;
};

}  // namespace sluice::store
