#include "io/pool_reader.h"

#include <pthread.h>

#include <utility>

#include "base/check.h"
#include "base/thread_pool.h"

namespace sluice::io {

/// The queue of one drive and the threads that serve it.
class PoolReader::Lane {
 public:
  Lane(std::uint64_t piece_bytes, Delivery& delivery) : queue_(piece_bytes), delivery_(delivery) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  ~Lane() {
    queue_.close();
    for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
  }

  /// Starts up to `threads` threads; fails when not even one can be had.
  Status start(int threads) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kThreadStackBytes);
    int error = 0;
    for (int i = 0; i < threads && error == 0; ++i) {
      pthread_t thread;
      error = pthread_create(&thread, &attributes, &Lane::thread_main, this);
      if (error == 0) threads_.push_back(thread);
    }
    pthread_attr_destroy(&attributes);
    if (threads_.empty()) {
      return fail(ErrorKind::memory, "no thread to read with can be started: {}",
                  error_text(error));
    }
    return {};
  }

  RequestQueue& queue() { return queue_; }
  std::size_t threads() const { return threads_.size(); }

 private:
  static void* thread_main(void* lane) {
    static_cast<Lane*>(lane)->serve();
    return nullptr;
  }

  void serve() {
    while (const std::optional<Piece> piece = queue_.take()) {
      const ReadOutcome outcome = piece->length > 0 ? read(*piece) : ReadOutcome{};
      for (Request& request : queue_.finish(*piece, outcome)) delivery_.deliver(request, queue_);
    }
  }

  static ReadOutcome read(const Piece& piece) {
    OpenFile& file = piece.request->file;
    file.drive.begin_read();
    const PieceResult result = file.pieces->read(piece.offset, piece.to, piece.length);
    file.drive.end_read(result.transferred);
    file.bytes += result.transferred;
    return result.outcome;
  }

  RequestQueue queue_;
  Delivery& delivery_;
  std::vector<pthread_t> threads_;
};

PoolReader::PoolReader(PieceFileMaker maker, const ReaderOptions& options,
                       std::uint64_t thread_bytes)
    : maker_(std::move(maker)), options_(options), thread_bytes_(thread_bytes) {
  SLUICE_CHECK(options.threads > 0);
}

PoolReader::~PoolReader() = default;

Result<FileId> PoolReader::open(const std::filesystem::path& path) {
  SLUICE_ASSIGN(const FileId file, files_.open(path, *options_.system, maker_));
  SLUICE_TRY(ensure_lane(files_[file].drive));
  return file;
}

Status PoolReader::ensure_lane(const Drive& drive) {
  const std::scoped_lock lock(lanes_mutex_);
  if (lanes_.size() <= drive.index()) lanes_.resize(drive.index() + 1);
  if (lanes_[drive.index()] != nullptr) return {};
  auto lane = std::make_unique<Lane>(options_.piece_bytes, delivery_);
  SLUICE_TRY(lane->start(options_.threads));
  lanes_[drive.index()] = std::move(lane);
  return {};
}

PoolReader::Lane& PoolReader::lane_of(const Drive& drive) const {
  const std::scoped_lock lock(lanes_mutex_);
  return *lanes_[drive.index()];
}

std::vector<PoolReader::Lane*> PoolReader::lanes() const {
  const std::scoped_lock lock(lanes_mutex_);
  std::vector<Lane*> all;
  for (const auto& lane : lanes_) {
    if (lane != nullptr) all.push_back(lane.get());
  }
  return all;
}

std::size_t PoolReader::room_for(std::uint64_t length) const { return room_for_extent(length); }

void PoolReader::submit(std::span<const ReadRequest> requests) {
  for (const ReadRequest& request : requests) {
    OpenFile& file = files_[request.extent.file];
    lane_of(file.drive).queue().push(request, file);
  }
}

void PoolReader::promote(const CompletionSink& sink, std::uint64_t tag) {
  for (Lane* lane : lanes()) lane->queue().promote(sink, tag);
}

void PoolReader::cancel(const CompletionSink& sink) {
  for (Lane* lane : lanes()) lane->queue().drop(sink);
  for (Lane* lane : lanes()) lane->queue().wait_for(sink);
}

ReaderStatistics PoolReader::statistics() const {
  ReaderStatistics statistics;
  delivery_.add_statistics(statistics);
  files_.add_statistics(statistics);
  return statistics;
}

std::uint64_t PoolReader::memory_bytes() const {
  std::uint64_t threads = 0;
  for (const Lane* lane : lanes()) threads += lane->threads();
  return threads * (kThreadStackBytes + thread_bytes_);
}

}  // namespace sluice::io
