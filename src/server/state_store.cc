#include "server/state_store.h"

#include <algorithm>

#include "store/checksum.h"

namespace sluice::server {
namespace {

constexpr std::size_t kMostParts = 2;  // of a prompt

/// Ids and logits lie on the heap, but their room is charged with the buffer's.
std::uint64_t bytes_of(const model::SequenceState& sequence, std::span<const std::int32_t> ids,
                       std::span<const float> logits) {
  return sequence.saved_bytes() + ids.size_bytes() + logits.size_bytes();
}

std::uint64_t checksum_of_ids(std::span<const std::int32_t> ids) {
  return store::checksum_of(std::as_bytes(ids));
}

}  // namespace

bool begin_with(std::span<const std::int32_t> ids, std::span<const std::int32_t> start) {
  return start.size() <= ids.size() && std::equal(start.begin(), start.end(), ids.begin());
}

StateStore::Shared StateStore::find(std::span<const std::int32_t> ids, std::uint32_t adapter) {
  auto best = saved_.end();
  for (auto each = saved_.begin(); each != saved_.end(); ++each) {
    const Saved& saved = *each->saved;
    if (saved.adapter != adapter) continue;
    if (best != saved_.end() && saved.ids.size() <= best->saved->ids.size()) continue;
    if (saved.ids.size() == ids.size() && saved.logits.empty()) continue;
    if (begin_with(ids, saved.ids)) best = each;
  }
  if (best == saved_.end()) return nullptr;
  if (best->part_of && *best->part_of != checksum_of_ids(ids)) best->part_of.reset();
  saved_.splice(saved_.begin(), saved_, best);
  return saved_.front().saved;
}

StateStore::Shared StateStore::save(const model::SequenceState& sequence,
                                    std::span<const std::int32_t> ids,
                                    std::span<const float> logits) {
  const auto known = std::find_if(saved_.begin(), saved_.end(), [&](const Entry& each) {
    return each.saved->adapter == sequence.adapter() && std::ranges::equal(each.saved->ids, ids);
  });
  if (known != saved_.end()) {
    if (logits.empty() || !known->saved->logits.empty()) {
      saved_.splice(saved_.begin(), saved_, known);
      return saved_.front().saved;
    }
    saved_.erase(known);
  }
  // The longest at the very end.
  for (const Place part : parts_of(ids, sequence.adapter())) {
    saved_.splice(saved_.end(), saved_, part);
  }
  Shared saved = copy(sequence, ids, logits);
  if (saved) saved_.push_front({saved});
  return saved;
}

StateStore::Shared StateStore::save_part(const model::SequenceState& sequence,
                                         std::span<const std::int32_t> prompt, std::size_t count) {
  const std::span<const std::int32_t> ids = prompt.first(count);
  std::vector<Place> older = parts_of(ids, sequence.adapter());
  const std::uint64_t bytes = Buffer::charge_for(bytes_of(sequence, ids, {}));
  while (!older.empty() && (older.size() >= kMostParts || *used_ + bytes > room_)) {
    saved_.erase(older.front());
    older.erase(older.begin());
  }
  Shared saved = copy(sequence, ids, {});
  if (saved) saved_.push_front({saved, checksum_of_ids(prompt)});
  return saved;
}

/// The parts that `ids` go beyond, the shortest first.
std::vector<StateStore::Place> StateStore::parts_of(std::span<const std::int32_t> ids,
                                                    std::uint32_t adapter) {
  std::vector<Place> parts;
  for (auto each = saved_.begin(); each != saved_.end(); ++each) {
    const Saved& saved = *each->saved;
    if (!each->part_of || saved.adapter != adapter || saved.ids.size() >= ids.size()) continue;
    if (begin_with(ids, saved.ids)) parts.push_back(each);
  }
  std::ranges::sort(parts, {}, [](Place part) { return part->saved->ids.size(); });
  return parts;
}

StateStore::Shared StateStore::copy(const model::SequenceState& sequence,
                                    std::span<const std::int32_t> ids,
                                    std::span<const float> logits) {
  const std::size_t state_bytes = sequence.saved_bytes();
  const std::uint64_t all = bytes_of(sequence, ids, logits);
  const std::uint64_t bytes = Buffer::charge_for(all);
  if (bytes > room_) return nullptr;
  while (*used_ + bytes > room_ && !saved_.empty()) saved_.pop_back();
  if (*used_ + bytes > room_) return nullptr;
  auto room = Buffer::allocate(all, Tenant::state, ledger_);
  if (!room) return nullptr;
  const auto saved = std::make_shared<Saved>();
  saved->ids.assign(ids.begin(), ids.end());
  saved->adapter = sequence.adapter();
  saved->room = std::move(*room);
  saved->state_bytes = state_bytes;
  saved->logits.assign(logits.begin(), logits.end());
  saved->bytes = bytes;
  saved->used = used_;
  *used_ += bytes;
  sequence.save(saved->room.bytes().first(state_bytes));
  return saved;
}

}  // namespace sluice::server
