// A Reader with a pool of threads per drive, whatever the way in which a piece is read.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "io/delivery.h"
#include "io/file_table.h"
#include "io/reader.h"
#include "io/reader_options.h"
#include "io/request_queue.h"

namespace sluice::io {

/// Each drive has a queue and threads of its own, started when its first file is opened, so a slow
/// drive never holds up another.
///
/// Locks, none held while another is taken but in this order: FileTable's (while a file is opened),
/// then Drive's. lanes_mutex_, RequestQueue's: alone. Sinks are called with none held.
class PoolReader final : public Reader {
 public:
  /// `thread_bytes`: what a thread may hold beside its stack while it reads.
  PoolReader(PieceFileMaker maker, const ReaderOptions& options, std::uint64_t thread_bytes = 0);
  /// Settles what is outstanding as interrupted and ends the threads.
  ~PoolReader() override;

  Result<FileId> open(const std::filesystem::path& path) override;
  std::uint64_t size(FileId file) const override { return files_[file].size(); }
  const std::filesystem::path& path(FileId file) const override { return files_[file].path(); }
  std::size_t room_for(std::uint64_t length) const override;
  void submit(std::span<const ReadRequest> requests) override;
  void promote(const CompletionSink& sink, std::uint64_t tag) override;
  void cancel(const CompletionSink& sink) override;
  ReaderStatistics statistics() const override;
  std::uint64_t memory_bytes() const override;

 private:
  class Lane;

  Status ensure_lane(const Drive& drive);
  Lane& lane_of(const Drive& drive) const;
  std::vector<Lane*> lanes() const;

  const PieceFileMaker maker_;
  const ReaderOptions options_;
  const std::uint64_t thread_bytes_;
  FileTable files_;
  Delivery delivery_;
  mutable std::mutex lanes_mutex_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // by Drive::index(); may hold nulls
};

}  // namespace sluice::io
