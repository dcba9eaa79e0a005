// The trunk on its way from the drives to the arithmetic, tile by tile.
//
// States of a tile: idle (not in memory) -> loading (its read is under way) -> ready -> idle when
// released, or for ever ready when resident; loading -> failed when the read failed.
//
// Locking: one mutex guards all state. It is never held while the reader is called, and a
// completion (which comes on a reader's thread) takes it only to note the state of its tile. One
// thread, the pass's, calls everything else.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/ledger.h"
#include "base/result.h"
#include "io/reader.h"
#include "weights/placement.h"

namespace sluice::weights {

/// Rows of a matrix in memory, ready to be computed with.
struct Tile {
  MatrixId matrix = 0;
  std::uint32_t first_row = 0;
  std::uint32_t rows = 0;
  const std::byte* data = nullptr;  ///< rows x row_bytes, any alignment
};

class TrunkStream final : public io::CompletionSink {
 public:
  /// Charges for the tables of the tiles, and allocates the resident room and the ring. Nothing is
  /// read yet: the first pass brings the resident tiles in like any others, they just stay.
  /// `blocks`, `placement`, `reader` and `ledger` must outlive the stream.
  static Result<std::unique_ptr<TrunkStream>> create(const Blocks& blocks,
                                                     const Placement& placement, io::Reader& reader,
                                                     MemoryLedger& ledger);
  ~TrunkStream();

  /// Starts a pass at the first tile; read-ahead of it began while the last pass ran. Without
  /// `with_head` the pass ends before the head's matrices.
  void begin_pass(bool with_head);

  /// The next tiles, all of `matrix`, which must be the next in the schedule: at least one, more
  /// if they are there already. Blocks until the first is there. Fails with ErrorKind::drive.
  Result<std::span<const Tile>> take(MatrixId matrix);

  /// Gives back what take() returned last.
  void release();

  /// All tiles of a matrix that comes later in the pass, without using them up, or none if not all
  /// of them are in memory. Valid until the next call of take() or peek(). Call it with nothing
  /// taken.
  std::span<const Tile> peek(MatrixId matrix);

  /// Turns resident tiles into streamed ones, spread over the schedule, until `bytes` are given
  /// back to the system or there are no more. Returns the bytes. Call it with nothing taken.
  std::uint64_t shed(std::uint64_t bytes);
  /// Makes up to `bytes` of them resident again. Returns the bytes.
  std::uint64_t regrow(std::uint64_t bytes);
  /// Of tiles that were shed and did not come back; from any thread.
  std::uint64_t gone_bytes() const;

  /// Drops the pass under way: waits for its reads and starts afresh at the next begin_pass().
  void abort();

  const std::string& name(MatrixId matrix) const { return blocks_.matrices[matrix].name; }

  /// Time that take() waited for bytes, in seconds.
  double wait_s() const { return wait_s_; }

  void complete(io::Completion completion) noexcept override;

 private:
  enum class State : std::uint8_t { idle, loading, ready, failed };
  struct RingEntry {
    std::size_t tile;
    std::uint64_t begin;
    std::uint64_t end;
  };

  TrunkStream(const Blocks& blocks, const Placement& placement, io::Reader& reader,
              MemoryLedger& ledger);
  std::uint64_t room_of(std::size_t tile) const;
  std::size_t turn_of(std::size_t tile) const;
  void read_again_from(std::size_t turn);
  bool has_failed() const;
  void fetch_ahead();
  bool next_to_fetch();
  bool is_awaited(std::size_t tile) const;
  std::optional<std::uint64_t> ring_allocate(std::uint64_t bytes);
  std::size_t pass_end() const;
  bool is_out_of_play(std::size_t tile) const;
  void wait_for(std::size_t tile, std::unique_lock<std::mutex>& lock);

  const Blocks& blocks_;
  const Placement& placement_;
  const std::vector<TileSpan>& tiles_;
  io::Reader& reader_;
  MemoryLedger& ledger_;  // the tables are charged there
  Buffer resident_room_;
  Buffer ring_;
  std::vector<std::uint64_t> resident_offset_;  // by tile; only for placed ones
  std::vector<bool> resident_;                  // by tile: placed so, and not shed
  std::uint64_t gone_bytes_ = 0;                // of tiles that were shed

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<State> state_;            // by tile
  std::vector<const std::byte*> data_;  // by tile, when ready
  std::optional<Error> error_;          // of the first failed read
  std::size_t loading_ = 0;             // tiles whose read is under way

  std::deque<RingEntry> ring_entries_;  // oldest first
  std::uint64_t ring_head_ = 0;
  std::size_t cursor_ = 0;           // next tile to take
  std::size_t fetch_ = 0;            // next tile to read
  bool fetch_in_next_pass_ = false;  // fetch_ ran past the end of the pass under way
  bool with_head_ = false;
  std::vector<Tile> taken_;
  std::vector<Tile> peeked_;
  std::vector<io::ReadRequest> requests_;
  double wait_s_ = 0;
};

}  // namespace sluice::weights
