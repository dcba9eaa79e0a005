#include "server/state_store.h"

#include <algorithm>

namespace sluice::server {

bool begin_with(std::span<const std::int32_t> ids, std::span<const std::int32_t> start) {
  return start.size() <= ids.size() && std::equal(start.begin(), start.end(), ids.begin());
}

StateStore::Shared StateStore::find(std::span<const std::int32_t> ids, std::uint32_t adapter) {
  auto best = saved_.end();
  for (auto each = saved_.begin(); each != saved_.end(); ++each) {
    const Saved& saved = **each;
    if (saved.adapter != adapter) continue;
    if (best != saved_.end() && saved.ids.size() <= (*best)->ids.size()) continue;
    if (saved.ids.size() == ids.size() && saved.logits.empty()) continue;
    if (begin_with(ids, saved.ids)) best = each;
  }
  if (best == saved_.end()) return nullptr;
  saved_.splice(saved_.begin(), saved_, best);
  return saved_.front();
}

StateStore::Shared StateStore::save(const model::SequenceState& sequence,
                                    std::span<const std::int32_t> ids,
                                    std::span<const float> logits) {
  const auto known = std::find_if(saved_.begin(), saved_.end(), [&](const Shared& each) {
    return each->adapter == sequence.adapter() && std::ranges::equal(each->ids, ids);
  });
  if (known != saved_.end()) {
    if (logits.empty() || !(*known)->logits.empty()) {
      saved_.splice(saved_.begin(), saved_, known);
      return saved_.front();
    }
    saved_.erase(known);
  }
  Shared saved = copy(sequence, ids, logits);
  if (saved) saved_.push_front(saved);
  return saved;
}

StateStore::Shared StateStore::copy(const model::SequenceState& sequence,
                                    std::span<const std::int32_t> ids,
                                    std::span<const float> logits) {
  const std::size_t state_bytes = sequence.saved_bytes();
  // Ids and logits lie on the heap, but their room is charged with the buffer's.
  const std::uint64_t all = state_bytes + ids.size_bytes() + logits.size_bytes();
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
