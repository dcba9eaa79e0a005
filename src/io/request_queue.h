// What is still to be read from one drive, in the order in which it goes out.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "io/file_table.h"
#include "io/reader.h"

namespace sluice::io {

/// Bytes of room for an extent of `length` bytes at any offset: at most one block more than the
/// extent's own blocks.
std::size_t room_for_extent(std::uint64_t length);

/// A request on its way. Its window is the extent with its start rounded down to kRoomAlignment;
/// the window's first byte goes to the start of the room.
struct Request {
  Request(const ReadRequest& asked_for, OpenFile& from);

  std::uint64_t window_offset() const { return asked.extent.offset - skip; }
  std::span<const std::byte> bytes() const {
    return asked.room.subspan(skip, static_cast<std::size_t>(asked.extent.length));
  }

  ReadRequest asked;
  OpenFile& file;
  std::size_t skip;            // bytes of the window before the extent
  std::uint64_t next = 0;      // where in the window the next piece starts
  std::uint64_t left;          // bytes of the window that no piece covers yet
  int under_way = 0;           // pieces taken and not finished
  std::optional<Error> error;  // why it will not arrive; the first reason counts
};

/// A range that is read in one go. A piece of no bytes only settles its request.
struct Piece {
  Request* request = nullptr;
  std::uint64_t offset = 0;  ///< in the file, a multiple of kRoomAlignment
  std::byte* to = nullptr;
  std::uint64_t length = 0;
  Priority priority = Priority::needed;  ///< with which it goes out
};

/// A request that is over, taken out of the queue to be delivered.
using FinishedRequest = std::list<Request>;  // of one or none

/// Requests are cut into pieces of at most `piece_bytes`, so that several reads of one large extent
/// are under way together. Thread-safe; whoever takes a piece must finish it, and whoever gets a
/// finished request must deliver it to its sink and then call delivered().
class RequestQueue {
 public:
  /// `piece_bytes` is a multiple of kRoomAlignment.
  explicit RequestQueue(std::uint64_t piece_bytes);

  void push(const ReadRequest& asked, OpenFile& file);

  /// The next piece: of the highest priority, then of the oldest request. Waits until there is one;
  /// nothing after close(), once all is settled.
  std::optional<Piece> take();
  /// As take(), without waiting.
  std::optional<Piece> try_take();

  /// Reports a piece. Hands out its request when this was the last that was missing.
  FinishedRequest finish(const Piece& piece, const ReadOutcome& outcome);
  void delivered(const CompletionSink* sink);
  /// Whether the piece's request will end in an error, whatever comes of the piece.
  bool failed(const Piece& piece);

  void promote(const CompletionSink& sink, std::uint64_t tag);
  /// No further piece of the sink's requests goes out; they settle as interrupted.
  void drop(const CompletionSink& sink);
  /// Returns when nothing is outstanding for the sink.
  void wait_for(const CompletionSink& sink);

  /// Whether nothing at all is outstanding.
  bool idle();

  /// Drops everything and lets take() end.
  void close();

 private:
  using Requests = std::list<Request>;

  std::optional<Piece> next_piece();
  /// Ends a queued request before all of its pieces went out. Returns the iterator after it.
  Requests::iterator drop_one(Requests& queue, Requests::iterator request);

  const std::uint64_t piece_bytes_;
  std::mutex mutex_;  // guards everything below; no other lock is taken while it is held
  std::condition_variable work_;
  std::condition_variable idle_;
  std::array<Requests, kPriorities> queued_;  // with pieces to hand out
  Requests settled_;                          // nothing to read, to be delivered
  Requests under_way_;                        // all pieces handed out
  std::unordered_map<const CompletionSink*, std::size_t> outstanding_;
  bool closed_ = false;
};

}  // namespace sluice::io
