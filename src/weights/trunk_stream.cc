#include "weights/trunk_stream.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "base/size.h"

namespace sluice::weights {
namespace {

// Reads under way beyond this many tiles gain nothing, and would hold up the experts' reads.
constexpr std::size_t kMostLoading = 32;

// Tiles that take() hands out at once: enough to keep the threads of a pool busy without asking
// again, few enough that the ring keeps room for reading ahead.
constexpr std::size_t kMostTaken = 8;

}  // namespace

TrunkStream::TrunkStream(const Blocks& blocks, const Placement& placement, io::Reader& reader,
                         MemoryLedger& ledger)
    : blocks_(blocks),
      placement_(placement),
      tiles_(placement.schedule.tiles),
      reader_(reader),
      ledger_(ledger),
      resident_(placement.resident) {
  state_.assign(tiles_.size(), State::idle);
  data_.assign(tiles_.size(), nullptr);
  resident_offset_.assign(tiles_.size(), 0);
  std::uint64_t offset = 0;
  for (std::size_t tile = 0; tile < tiles_.size(); ++tile) {
    if (!placement_.resident[tile]) continue;
    resident_offset_[tile] = offset;
    offset += room_of(tile);
  }
  SLUICE_CHECK(offset == placement_.resident_room);
}

Result<std::unique_ptr<TrunkStream>> TrunkStream::create(const Blocks& blocks,
                                                         const Placement& placement,
                                                         io::Reader& reader, MemoryLedger& ledger) {
  SLUICE_TRY(ledger.charge(Tenant::program, placement.table_bytes));  // heap, as all of the program
  std::unique_ptr<TrunkStream> stream(new TrunkStream(blocks, placement, reader, ledger));
  SLUICE_ASSIGN(stream->resident_room_,
                Buffer::allocate(placement.resident_room, Tenant::resident, ledger));
  SLUICE_ASSIGN(stream->ring_, Buffer::allocate(placement.ring_bytes, Tenant::ring, ledger));
  return stream;
}

TrunkStream::~TrunkStream() {
  reader_.cancel(*this);
  ledger_.release(Tenant::program, placement_.table_bytes);
}

std::uint64_t TrunkStream::room_of(std::size_t tile) const {
  return round_up(reader_.room_for(tiles_[tile].extent.length), io::kRoomAlignment);
}

std::size_t TrunkStream::pass_end() const {
  return with_head_ ? tiles_.size() : placement_.schedule.head_begin;
}

void TrunkStream::begin_pass(bool with_head) {
  if (has_failed()) abort();
  {
    const std::scoped_lock lock(mutex_);
    SLUICE_CHECK(cursor_ == 0 || cursor_ == pass_end());
    cursor_ = 0;
    with_head_ = with_head;
    if (!fetch_in_next_pass_) fetch_ = 0;  // read-ahead had not reached this pass yet
    fetch_in_next_pass_ = false;
  }
  fetch_ahead();
}

/// Whether a read-ahead failed after the pass that it came from, which was done and well. The next
/// one has the drive asked anew: it may long be there again.
bool TrunkStream::has_failed() const {
  const std::scoped_lock lock(mutex_);
  return error_.has_value();
}

Result<std::span<const Tile>> TrunkStream::take(MatrixId matrix) {
  std::unique_lock lock(mutex_);
  SLUICE_CHECK(taken_.empty() && cursor_ < pass_end() && tiles_[cursor_].matrix == matrix);
  wait_for(cursor_, lock);
  if (state_[cursor_] == State::failed) return tl::unexpected(*error_);
  while (cursor_ < pass_end() && tiles_[cursor_].matrix == matrix &&
         state_[cursor_] == State::ready && taken_.size() < kMostTaken) {
    const TileSpan& tile = tiles_[cursor_];
    taken_.push_back({matrix, tile.first_row, tile.rows, data_[cursor_]});
    ++cursor_;
  }
  return std::span<const Tile>(taken_);
}

std::span<const Tile> TrunkStream::peek(MatrixId matrix) {
  const std::scoped_lock lock(mutex_);
  SLUICE_CHECK(taken_.empty());
  peeked_.clear();
  const auto first = std::ranges::lower_bound(tiles_, matrix, {}, &TileSpan::matrix);
  for (auto at = first; at != tiles_.end() && at->matrix == matrix; ++at) {
    const auto tile = static_cast<std::size_t>(at - tiles_.begin());
    if (tile < cursor_ || state_[tile] != State::ready) return {};
    peeked_.push_back({matrix, at->first_row, at->rows, data_[tile]});
  }
  return peeked_;
}

/// Whether neither the pass nor its reading counts on where the tile is: it was used already and
/// not read again since, or its turn to be read has not come.
bool TrunkStream::is_out_of_play(std::size_t tile) const {
  if (state_[tile] != State::ready && state_[tile] != State::idle) return false;
  if (fetch_in_next_pass_) return tile >= fetch_ && tile < cursor_;
  return tile >= fetch_ || tile < cursor_;
}

/// Where a tile comes in the order of use: what is left of this pass, then the next one.
std::size_t TrunkStream::turn_of(std::size_t tile) const {
  return tile >= cursor_ ? tile : tiles_.size() + tile;
}

/// Reading goes on from this turn once more, so that what was there and is not any longer is read.
/// Nothing in the ring may come after it.
void TrunkStream::read_again_from(std::size_t turn) {
  const std::size_t reached = fetch_in_next_pass_ ? tiles_.size() + fetch_ : fetch_;
  if (turn >= reached) return;
  fetch_ = turn % tiles_.size();
  fetch_in_next_pass_ = turn >= tiles_.size();
}

std::uint64_t TrunkStream::shed(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  SLUICE_CHECK(taken_.empty());
  if (ring_.size() == 0) return 0;  // nothing could stream
  // The ring is used in order: what reading has passed over may go if all in the ring is before it.
  const std::size_t behind_ring =
      ring_entries_.empty() ? cursor_ : turn_of(ring_entries_.back().tile) + 1;
  const auto may_go = [&](std::size_t tile) {
    if (!resident_[tile] || state_[tile] != State::ready) return false;
    return is_out_of_play(tile) || (tile < pass_end() && turn_of(tile) >= behind_ring);
  };
  std::size_t first_turn = 2 * tiles_.size();  // of those that go
  std::vector<std::size_t> candidates;
  std::uint64_t most = 0;
  for (std::size_t tile = 0; tile < tiles_.size(); ++tile) {
    if (!may_go(tile)) continue;
    candidates.push_back(tile);
    most += room_of(tile);
  }
  std::uint64_t freed = 0;
  std::uint64_t seen = 0;
  for (const std::size_t tile : candidates) {
    const std::uint64_t room = room_of(tile);
    seen += room;
    // As evenly as they were spread.
    const bool is_due = bytes >= most || static_cast<double>(freed) * static_cast<double>(most) <
                                             static_cast<double>(bytes) * static_cast<double>(seen);
    if (!is_due || freed >= bytes) continue;
    resident_[tile] = false;
    state_[tile] = State::idle;
    resident_room_.give_back(resident_offset_[tile], room);
    freed += room;
    first_turn = std::min(first_turn, turn_of(tile));
  }
  read_again_from(first_turn);
  gone_bytes_ += freed;
  return freed;
}

std::uint64_t TrunkStream::regrow(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  std::uint64_t taken = 0;
  for (std::size_t tile = 0; tile < tiles_.size() && gone_bytes_ > taken; ++tile) {
    const bool was_shed = placement_.resident[tile] && !resident_[tile];
    if (!was_shed || state_[tile] != State::idle || !is_out_of_play(tile)) continue;
    const std::uint64_t room = room_of(tile);
    if (taken + room > bytes || !resident_room_.take_back(resident_offset_[tile], room)) break;
    resident_[tile] = true;
    taken += room;
  }
  gone_bytes_ -= taken;
  return taken;
}

std::uint64_t TrunkStream::gone_bytes() const {
  const std::scoped_lock lock(mutex_);
  return gone_bytes_;
}

void TrunkStream::wait_for(std::size_t tile, std::unique_lock<std::mutex>& lock) {
  if (state_[tile] == State::ready || state_[tile] == State::failed) return;
  const auto start = Clock::now();
  lock.unlock();
  fetch_ahead();
  reader_.promote(*this, tile);
  lock.lock();
  // One that is idle is where reading goes on, and nothing bars it: the ring holds no later tile.
  SLUICE_CHECK(state_[tile] != State::idle);
  arrived_.wait(lock, [&] { return state_[tile] != State::loading; });
  wait_s_ += seconds_since(start);
}

void TrunkStream::release() {
  {
    const std::scoped_lock lock(mutex_);
    for (std::size_t tile = cursor_ - taken_.size(); tile < cursor_; ++tile) {
      if (resident_[tile]) continue;
      SLUICE_CHECK(!ring_entries_.empty() && ring_entries_.front().tile == tile);
      ring_entries_.pop_front();
      state_[tile] = State::idle;
    }
    taken_.clear();
  }
  fetch_ahead();
}

/// Moves fetch_ to the next tile that is not in memory; false when there is none to fetch now.
bool TrunkStream::next_to_fetch() {
  for (std::size_t steps = 0; steps <= tiles_.size(); ++steps) {
    if (fetch_ == tiles_.size() || fetch_ == placement_.schedule.head_begin) {
      // Whether the next pass wants the head is not known yet.
      if (fetch_in_next_pass_ && fetch_ == placement_.schedule.head_begin) return false;
      if (fetch_ == pass_end()) {
        if (fetch_in_next_pass_) return false;
        fetch_ = 0;
        fetch_in_next_pass_ = true;
      }
    }
    if (state_[fetch_] == State::idle) return true;
    // A streamed tile that is still waiting to be used: the ring is a whole pass ahead.
    if (!resident_[fetch_]) return false;
    ++fetch_;
  }
  return false;
}

/// Whether the pass can only wait for this tile: it was shed while as many reads as may be were
/// under way, all of later tiles. It does not wait for those.
bool TrunkStream::is_awaited(std::size_t tile) const {
  return tile == cursor_ && !fetch_in_next_pass_;
}

void TrunkStream::fetch_ahead() {
  {
    const std::scoped_lock lock(mutex_);
    requests_.clear();
    while (next_to_fetch() && (loading_ < kMostLoading || is_awaited(fetch_))) {
      const std::uint64_t room = room_of(fetch_);
      std::byte* target = nullptr;
      if (resident_[fetch_]) {
        target = resident_room_.data() + resident_offset_[fetch_];
      } else {
        const auto at = ring_allocate(room);
        if (!at) break;
        target = ring_.data() + *at;
        ring_entries_.push_back({fetch_, *at, *at + room});
      }
      requests_.push_back({tiles_[fetch_].extent,
                           {target, room},
                           io::Priority::read_ahead,
                           io::Purpose::trunk,
                           fetch_,
                           this,
                           fetch_});
      state_[fetch_] = State::loading;
      ++loading_;
      ++fetch_;
    }
  }
  if (!requests_.empty()) reader_.submit(requests_);
}

/// A place for `bytes` in the ring after the newest entry, or nothing when there is no room.
std::optional<std::uint64_t> TrunkStream::ring_allocate(std::uint64_t bytes) {
  std::uint64_t at = 0;
  if (!ring_entries_.empty()) {
    const std::uint64_t oldest = ring_entries_.front().begin;
    if (ring_head_ > oldest) {
      if (ring_.size() - ring_head_ >= bytes) {
        at = ring_head_;
      } else if (oldest < bytes) {
        return std::nullopt;
      }
    } else if (oldest - ring_head_ >= bytes) {
      at = ring_head_;
    } else {
      return std::nullopt;
    }
  }
  SLUICE_CHECK(at + bytes <= ring_.size());
  ring_head_ = at + bytes;
  return at;
}

void TrunkStream::complete(io::Completion completion) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    const auto tile = static_cast<std::size_t>(completion.tag);
    --loading_;
    if (completion.bytes) {
      data_[tile] = completion.bytes->data();
      state_[tile] = State::ready;
    } else {
      state_[tile] = State::failed;
      if (!error_) {
        error_ = std::move(completion.bytes).error();
        error_->message +=
            fmt::format(" (tensor {}, rows {} to {})", blocks_.matrices[tiles_[tile].matrix].name,
                        tiles_[tile].first_row, tiles_[tile].first_row + tiles_[tile].rows - 1);
      }
    }
    // Under the lock: once it is released with nothing loading, the stream may be gone.
    arrived_.notify_all();
  }
}

void TrunkStream::abort() {
  reader_.cancel(*this);
  const std::scoped_lock lock(mutex_);
  for (std::size_t tile = 0; tile < tiles_.size(); ++tile) {
    if (!resident_[tile] || state_[tile] != State::ready) state_[tile] = State::idle;
  }
  ring_entries_.clear();
  taken_.clear();
  error_.reset();
  loading_ = 0;  // one that submit() threw out counts no more
  cursor_ = 0;
  fetch_ = 0;
  fetch_in_next_pass_ = false;
}

}  // namespace sluice::weights
