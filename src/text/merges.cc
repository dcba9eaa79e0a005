#include "text/merges.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "text/utf8.h"

namespace sluice::text {

void MergeTable::reserve(std::size_t merges) {
  SLUICE_CHECK(size_ == 0);
  slots_.assign(std::bit_ceil(std::max<std::size_t>(merges + merges / 2, 2)), Slot());
}

/// Where the pair is, or the free slot where it belongs.
std::size_t MergeTable::slot_of(std::int32_t left, std::int32_t right) const {
  const std::size_t mask = slots_.size() - 1;
  std::uint64_t hash = static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
                       static_cast<std::uint32_t>(right);
  hash = (hash ^ hash >> 31) * 0x9E3779B97F4A7C15u;
  hash = (hash ^ hash >> 29) * 0xD6E8FEB86659FD93u;
  std::size_t slot = (hash >> 20) & mask;
  while (slots_[slot].left >= 0 && (slots_[slot].left != left || slots_[slot].right != right)) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

bool MergeTable::add(std::int32_t left, std::int32_t right, std::int32_t id) {
  SLUICE_CHECK(left >= 0 && size_ + size_ / 2 < slots_.size());
  Slot& slot = slots_[slot_of(left, right)];
  if (slot.left >= 0) return false;
  slot = {left, right, {static_cast<std::uint32_t>(size_), id}};
  ++size_;
  return true;
}

std::optional<MergeTable::Merge> MergeTable::find(std::int32_t left, std::int32_t right) const {
  if (size_ == 0) return std::nullopt;
  const Slot& slot = slots_[slot_of(left, right)];
  if (slot.left < 0) return std::nullopt;
  return slot.merge;
}

void MergeEncoder::encode(std::string_view piece, std::vector<std::int32_t>& ids) {
  if (piece.empty()) return;
  if (whole_pieces_) {
    if (const auto whole = vocabulary_.find(piece)) {
      ids.push_back(*whole);
      return;
    }
  }
  parts_.clear();
  if (unknown_ == nullptr) {
    part_bytes(piece);
  } else {
    part_characters(piece);
  }
  heap_.clear();
  for (std::uint32_t i = 0; i + 1 < parts_.size(); ++i) offer(i);
  merge_all();
  for (std::size_t at = 0; at < parts_.size(); at = parts_[at].next) ids.push_back(parts_[at].id);
}

void MergeEncoder::add_part(std::int32_t id) {
  const auto at = static_cast<std::uint32_t>(parts_.size());
  parts_.push_back({at + 1, at - 1, id});
}

void MergeEncoder::part_bytes(std::string_view piece) {
  for (const char byte : piece) add_part(vocabulary_.byte_token(static_cast<std::uint8_t>(byte)));
}

void MergeEncoder::part_characters(std::string_view piece) {
  bool unknown = false;
  for (std::size_t at = 0; at < piece.size();) {
    const std::string_view character = piece.substr(at, read_utf8(piece, at).size);
    at += character.size();
    const auto id = vocabulary_.find(character);
    if (id) {
      add_part(*id);
    } else {
      unknown_->write(character, !unknown, [&](std::int32_t each) { add_part(each); });
    }
    unknown = !id && !unknown_->has_bytes_of(character);
  }
}

// Puts the pair that starts with `part` on the heap if the two may be merged.
void MergeEncoder::offer(std::uint32_t part) {
  const std::uint32_t next = parts_[part].next;
  if (next >= parts_.size()) return;
  const auto merge = merges_.find(parts_[part].id, parts_[next].id);
  if (!merge) return;
  heap_.push_back({merge->rank, part, parts_[part].id, parts_[next].id, merge->id});
  std::push_heap(heap_.begin(), heap_.end());
}

void MergeEncoder::merge_all() {
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Candidate best = heap_.back();
    heap_.pop_back();
    // Out of date unless both are still what they were: ids only ever become those of longer
    // tokens.
    Part& part = parts_[best.part];
    if (part.id != best.left || part.next >= parts_.size() || parts_[part.next].id != best.right) {
      continue;
    }
    Part& gone = parts_[part.next];
    part.id = best.id;
    part.next = gone.next;
    gone.id = -1;
    if (part.next < parts_.size()) parts_[part.next].previous = best.part;
    if (best.part > 0) offer(part.previous);
    offer(best.part);
  }
}

}  // namespace sluice::text
