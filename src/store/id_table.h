// A hash table of ids whose keys lie elsewhere: four bytes per slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sluice::store {

/// Holds ids 0, 1, 2, ... by the hash of their keys (open addressing, linear probing). The owner
/// keeps the keys and answers how they compare and hash.
class IdTable {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// The id with this hash for which equal(id) holds.
  template <class Equal>
  std::optional<std::uint32_t> find(std::uint64_t hash, Equal equal) const {
    if (slots_.empty()) return std::nullopt;
    for (std::size_t slot = first(hash); slots_[slot] != kNone; slot = next(slot)) {
      if (equal(slots_[slot])) return slots_[slot];
    }
    return std::nullopt;
  }

  /// Adds an id that is not in the table, kNone excepted. hash_of(id) is asked for all ids when the
  /// table grows, so the key of `id` must be in its place already.
  template <class HashOf>
  void insert(std::uint32_t id, HashOf hash_of) {
    if (4 * (count_ + 1) > 3 * slots_.size()) grow(hash_of);
    place(hash_of(id), id);
    ++count_;
  }

  std::uint64_t memory_bytes() const { return slots_.capacity() * sizeof(std::uint32_t); }

 private:
  static constexpr std::size_t kFirstSlots = 64;

  std::size_t first(std::uint64_t hash) const {
    return static_cast<std::size_t>(hash) & (slots_.size() - 1);
  }
  std::size_t next(std::size_t slot) const { return (slot + 1) & (slots_.size() - 1); }

  void place(std::uint64_t hash, std::uint32_t id) {
    std::size_t slot = first(hash);
    while (slots_[slot] != kNone) slot = next(slot);
    slots_[slot] = id;
  }

  template <class HashOf>
  void grow(HashOf hash_of) {
    const std::vector<std::uint32_t> old = std::move(slots_);
    slots_.assign(old.empty() ? kFirstSlots : 2 * old.size(), kNone);  // always a power of two
    for (const std::uint32_t id : old) {
      if (id != kNone) place(hash_of(id), id);
    }
  }

  std::vector<std::uint32_t> slots_;
  std::size_t count_ = 0;
};

}  // namespace sluice::store
