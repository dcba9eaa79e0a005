// The Reader that all ways of reading share: files, a lane per drive, statistics.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "io/delivery.h"
#include "io/file_table.h"
#include "io/lane.h"
#include "io/reader.h"
#include "io/reader_options.h"
#include "io/stall_watch.h"

namespace sluice::io {

/// Each drive has a lane of its own, made when its first file is opened, so that a slow drive never
/// holds up another.
///
/// Locks: FileTable's is held while a file is opened, and Drive's may be taken under it.
/// lanes_mutex_, RequestQueue's and the ring's are taken alone. Sinks are called with none held.
class LaneReader final : public Reader {
 public:
  LaneReader(const ReaderOptions& options, PieceFileMaker file_maker, LaneMaker lane_maker);

  Result<FileId> open(const std::filesystem::path& path) override;
  std::uint64_t size(FileId file) const override { return files_[file].size(); }
  const std::filesystem::path& path(FileId file) const override { return files_[file].path(); }
  std::size_t drive_of(FileId file) const override { return files_[file].drive.index(); }
  std::size_t room_for(std::uint64_t length) const override { return room_for_extent(length); }
  void submit(std::span<const ReadRequest> requests) override;
  void promote(const CompletionSink& sink, std::uint64_t tag) override;
  void cancel(const CompletionSink& sink) override;
  ReaderStatistics statistics() const override;
  std::uint64_t memory_bytes() const override;

 private:
  Status ensure_lane(const OpenFile& file);
  Lane& lane_of(const Drive& drive) const;
  /// The first lane from `index` on, which is moved behind it; null behind the last. Takes no
  /// memory, for cancel() is asked when there is none.
  Lane* next_lane(std::size_t& index) const;

  const System& system_;
  const PieceFileMaker file_maker_;
  const LaneMaker lane_maker_;
  FileTable files_;
  Delivery delivery_;
  mutable std::mutex lanes_mutex_;            // guards lanes_; the lanes themselves are thread-safe
  std::vector<std::unique_ptr<Lane>> lanes_;  // by Drive::index(); may hold nulls
  StallWatch watch_;                          // last: it looks at the rest
};

}  // namespace sluice::io
