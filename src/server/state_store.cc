#include "server/state_store.h"

#include <algorithm>

namespace sluice::server {

bool begin_with(std::span<const std::int32_t> ids, std::span<const std::int32_t> start) {
  return start.size() <= ids.size() && std::equal(start.begin(), start.end(), ids.begin());
}

const StateStore::Saved* StateStore::find(std::span<const std::int32_t> ids) {
  auto best = saved_.end();
  for (auto each = saved_.begin(); each != saved_.end(); ++each) {
    if (best != saved_.end() && each->ids.size() <= best->ids.size()) continue;
    if (each->ids.size() == ids.size() && each->logits.empty()) continue;
    if (begin_with(ids, each->ids)) best = each;
  }
  if (best == saved_.end()) return nullptr;
  saved_.splice(saved_.begin(), saved_, best);
  return &saved_.front();
}

void StateStore::save(const model::SequenceState& sequence, std::vector<std::int32_t> ids,
                      std::span<const float> logits) {
  const auto known = std::find_if(saved_.begin(), saved_.end(),
                                  [&](const Saved& each) { return each.ids == ids; });
  if (known != saved_.end()) {
    saved_.splice(saved_.begin(), saved_, known);
    if (saved_.front().logits.empty()) saved_.front().logits.assign(logits.begin(), logits.end());
    return;
  }
  const std::size_t state_bytes = sequence.saved_bytes();
  // Ids and logits lie on the heap, but their room is charged with the buffer's.
  const std::uint64_t all = state_bytes + ids.size() * sizeof(ids[0]) + logits.size_bytes();
  const std::uint64_t bytes = Buffer::charge_for(all);
  if (bytes > room_) return;
  while (used_ + bytes > room_) drop_last();
  auto room = Buffer::allocate(all, Tenant::state, ledger_);
  if (!room) return;
  sequence.save(room->bytes().first(state_bytes));
  Saved saved = {
      std::move(ids), std::move(*room), state_bytes, {logits.begin(), logits.end()}, bytes};
  used_ += bytes;
  saved_.push_front(std::move(saved));
}

void StateStore::drop_last() {
  used_ -= saved_.back().bytes;
  saved_.pop_back();
}

}  // namespace sluice::server
