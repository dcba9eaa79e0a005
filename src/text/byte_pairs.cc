#include "text/byte_pairs.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>

#include "text/utf8.h"

namespace sluice::text {

ScoreRanks ScoreRanks::of(std::span<const float> scores) {
  std::vector<std::uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::uint32_t id) { return scores[id]; });
  ScoreRanks ranks;
  ranks.by_id.resize(scores.size());
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && scores[order[i]] != scores[order[i - 1]]) ++rank;
    ranks.by_id[order[i]] = rank;
  }
  return ranks;
}

void BytePairEncoder::encode(std::string_view piece, std::vector<std::int32_t>& ids) {
  if (piece.empty()) return;
  if (ranks_ == nullptr) {
    if (const auto whole = vocabulary_.find(piece)) {
      ids.push_back(*whole);
      return;
    }
  }
  piece_ = piece;
  part_all();
  heap_.clear();
  for (std::uint32_t i = 0; i < parts_.size(); i = parts_[i].next) offer(i);
  merge_all();
  write(ids);
}

void BytePairEncoder::part_all() {
  parts_.assign(piece_.size(), Part{});
  for (std::uint32_t at = 0, previous = 0; at < parts_.size();) {
    const std::uint32_t size = ranks_ == nullptr ? 1 : read_utf8(piece_, at).size;
    const std::int32_t id = size == 1
                                ? vocabulary_.byte_token(static_cast<std::uint8_t>(piece_[at]))
                                : vocabulary_.find(piece_.substr(at, size)).value_or(-1);
    parts_[at] = {at + size, previous, id};
    previous = at;
    at += size;
  }
}

// Puts the pair that starts at `start` on the heap if its bytes are a token.
void BytePairEncoder::offer(std::uint32_t start) {
  const std::uint32_t middle = parts_[start].next;
  if (middle >= parts_.size()) return;
  const auto id = vocabulary_.find(piece_.substr(start, parts_[middle].next - start));
  if (!id) return;
  const auto at = static_cast<std::uint32_t>(*id);
  heap_.push_back({ranks_ == nullptr ? at : ranks_->by_id[at], start, *id});
  std::push_heap(heap_.begin(), heap_.end());
}

void BytePairEncoder::merge_all() {
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    const auto [rank, start, id] = heap_.back();
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

void BytePairEncoder::write(std::vector<std::int32_t>& ids) const {
  bool unknown = false;
  for (std::uint32_t at = 0; at < parts_.size(); at = parts_[at].next) {
    const Part& part = parts_[at];
    if (part.id >= 0) {
      ids.push_back(part.id);
      unknown = false;
      continue;
    }
    const std::string_view character = piece_.substr(at, part.next - at);
    unknown_->write(character, !unknown, [&](std::int32_t id) { ids.push_back(id); });
    unknown = !unknown_->has_bytes_of(character);
  }
}

}  // namespace sluice::text
