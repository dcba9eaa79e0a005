// The one interface through which weights are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice::io {

using FileId = std::uint32_t;

/// A byte range of an open file. `offset` and `length` may have any alignment.
struct Extent {
  FileId file = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

inline bool lies_inside(const Extent& extent, std::uint64_t size) {
  return extent.offset <= size && extent.length <= size - extent.offset;
}

/// Demand goes before read-ahead, read-ahead before guesses; statistics are kept per priority.
enum class Priority : std::uint8_t { needed, read_ahead, guess };
inline constexpr std::size_t kPriorities = 3;

/// What the bytes are for; statistics are kept per purpose.
enum class Purpose : std::uint8_t { trunk, expert, other };
inline constexpr std::size_t kPurposes = 3;

/// `bytes` lies inside the request's room and has exactly the extent's length.
struct Completion {
  std::uint64_t tag;
  Result<std::span<const std::byte>> bytes;
};

/// Receives completions, on a thread of the reader that holds no lock, in order of arrival. Must
/// not block and must not call the reader's cancel(); it may call submit() as long as the reader is
/// not being destroyed.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  virtual void complete(Completion completion) noexcept = 0;
};

/// Room must start at a multiple of this.
inline constexpr std::size_t kRoomAlignment = 4096;

struct ReadRequest {
  Extent extent;
  std::span<std::byte> room;  ///< aligned; at least all blocks of kRoomAlignment that the extent
                              ///< touches, which room_for(extent.length) always holds; the
                              ///< reader's until the completion arrives
  Priority priority = Priority::needed;
  Purpose purpose = Purpose::other;
  std::uint64_t tag = 0;           ///< handed back in the completion
  CompletionSink* sink = nullptr;  ///< must live until all its completions arrived
  std::uint64_t label = 0;  ///< which block it is, for whoever watches; of no use to a reader
};

struct DriveStatistics {
  std::string path;          ///< the folder of the first file opened on this drive
  std::uint64_t device = 0;  ///< its st_dev
  std::uint64_t reads = 0;   ///< reads that completed well
  std::uint64_t bytes = 0;   ///< bytes that came from the drive, alignment included
  std::uint64_t faults = 0;  ///< reads that ended in an error
  std::uint64_t bytes_by_priority[kPriorities] = {};  ///< `bytes`, by what they were read as
  int queue_depth = 0;  ///< found to be best at present; 0: not looked for
  double busy_s = 0;    ///< time in which at least one read was under way
  bool direct = false;  ///< every file of the drive is read with direct I/O
};

struct FileStatistics {
  std::string path;
  std::uint64_t reads = 0;
  std::uint64_t bytes = 0;
  std::uint64_t faults = 0;  ///< reads that ended in an error
  bool direct = false;
};

struct ReaderStatistics {
  std::uint64_t requested_bytes[kPurposes] = {};    ///< bytes delivered, by purpose
  std::uint64_t delivered_bytes[kPriorities] = {};  ///< the same bytes, by the priority with which
                                                    ///< their last piece went out
  std::vector<DriveStatistics> drives;
  std::vector<FileStatistics> files;
};

/// Reads extents of files, many at a time, and hands them back as they arrive. Every request that
/// submit() accepted gets exactly one completion. All members may be called from any thread.
class Reader {
 public:
  virtual ~Reader() = default;

  /// Opens a file for reading. Opening the same path twice gives the same id.
  virtual Result<FileId> open(const std::filesystem::path& path) = 0;
  virtual std::uint64_t size(FileId file) const = 0;
  virtual const std::filesystem::path& path(FileId file) const = 0;
  /// The drive that the file lies on: its index in ReaderStatistics::drives.
  virtual std::size_t drive_of(FileId file) const = 0;

  /// Bytes of room that an extent of `length` bytes needs, whatever its offset.
  virtual std::size_t room_for(std::uint64_t length) const = 0;

  /// Queues the requests. Never blocks on a drive. An extent that does not lie inside its file
  /// completes with ErrorKind::model_files, one that the drive does not give with ErrorKind::drive.
  virtual void submit(std::span<const ReadRequest> requests) = 0;

  /// Raises the priority of a queued request of `sink` with this tag (no effect once it started).
  virtual void promote(const CompletionSink& sink, std::uint64_t tag) = 0;

  /// Drops what is queued for `sink`: those requests complete with ErrorKind::interrupted. Reads
  /// that are under way complete as usual. Returns when no completion for `sink` is outstanding.
  virtual void cancel(const CompletionSink& sink) = 0;

  virtual ReaderStatistics statistics() const = 0;

  /// Memory that the reader itself holds (buffers and thread stacks), in bytes.
  virtual std::uint64_t memory_bytes() const = 0;
};

/// Reads one extent and waits for it.
Result<std::span<const std::byte>> read_now(Reader& reader, Extent extent,
                                            std::span<std::byte> room, Purpose purpose);

}  // namespace sluice::io
