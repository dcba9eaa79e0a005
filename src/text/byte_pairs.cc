#include "text/byte_pairs.h"

#include <algorithm>
#include <cstddef>
#include <functional>

namespace sluice::text {

void BytePairEncoder::encode(std::string_view piece, std::vector<std::int32_t>& ids) {
  if (piece.empty()) return;
  if (const auto whole = vocabulary_.find(piece)) {
    ids.push_back(*whole);
    return;
  }
  piece_ = piece;
  parts_.resize(piece.size());
  for (std::uint32_t i = 0; i < parts_.size(); ++i) {
    parts_[i] = {i + 1, i - 1, vocabulary_.byte_token(static_cast<std::uint8_t>(piece[i]))};
  }
  heap_.clear();
  for (std::uint32_t i = 0; i < parts_.size(); ++i) offer(i);
  merge_all();
  for (std::size_t at = 0; at < parts_.size(); at = parts_[at].next) ids.push_back(parts_[at].id);
}

// Puts the pair that starts at `start` on the heap if its bytes are a token.
void BytePairEncoder::offer(std::uint32_t start) {
  const std::uint32_t middle = parts_[start].next;
  if (middle >= parts_.size()) return;
  const auto rank = vocabulary_.find(piece_.substr(start, parts_[middle].next - start));
  if (!rank) return;
  heap_.push_back(static_cast<std::uint64_t>(*rank) << 32 | start);
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

void BytePairEncoder::merge_all() {
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto id = static_cast<std::int32_t>(heap_.back() >> 32);
    const auto start = static_cast<std::uint32_t>(heap_.back());
    heap_.pop_back();
    // An entry is out of date unless two parts from `start` on still have just the token's bytes.
    // Where their border lies does not matter: the same bytes have the same rank.
    const std::size_t stop = start + vocabulary_.bytes_of(id).size();
    const std::uint32_t middle = parts_[start].next;
    if (middle == 0 || middle >= parts_.size() || parts_[middle].next != stop) continue;
    parts_[start].next = parts_[middle].next;
    parts_[start].id = id;
    parts_[middle].next = 0;
    if (stop < parts_.size()) parts_[stop].previous = start;
    if (start > 0) offer(parts_[start].previous);
    offer(start);
  }
}

}  // namespace sluice::text
