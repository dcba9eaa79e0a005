#include "io/pool_lane.h"

#include <pthread.h>

#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "io/file.h"

namespace sluice::io {
namespace {

class PoolLane final : public Lane {
 public:
  PoolLane(std::uint64_t piece_bytes, std::uint64_t thread_bytes, Delivery& delivery)
      : queue_(piece_bytes), thread_bytes_(thread_bytes), delivery_(delivery) {}
  PoolLane(const PoolLane&) = delete;
  PoolLane& operator=(const PoolLane&) = delete;

  ~PoolLane() override {
    queue_.close();
    for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
  }

  Status start(int threads) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kThreadStackBytes);
    int error = 0;
    for (int i = 0; i < threads && error == 0; ++i) {
      pthread_t thread;
      error = pthread_create(&thread, &attributes, &PoolLane::thread_main, this);
      if (error == 0) threads_.push_back(thread);
    }
    pthread_attr_destroy(&attributes);
    if (threads_.empty()) {
      return fail(ErrorKind::memory, "no thread to read with can be started: {}",
                  error_text(error));
    }
    return {};
  }

  RequestQueue& queue() override { return queue_; }
  std::uint64_t memory_bytes() const override {
    return threads_.size() * (kThreadStackBytes + thread_bytes_);
  }

 private:
  static void* thread_main(void* lane) {
    static_cast<PoolLane*>(lane)->serve();
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
    file.drive.begin_read(file.path());
    const PieceResult result = file.pieces->read(piece.offset, piece.to, piece.length);
    file.drive.end_read(result.transferred, piece.priority);
    file.bytes += result.transferred;
    return result.outcome;
  }

  RequestQueue queue_;
  const std::uint64_t thread_bytes_;
  Delivery& delivery_;
  std::vector<pthread_t> threads_;
};

}  // namespace

Result<std::unique_ptr<Lane>> make_pool_lane(const ReaderOptions& options,
                                             std::uint64_t thread_bytes, Delivery& delivery) {
  auto lane = std::make_unique<PoolLane>(options.piece_bytes, thread_bytes, delivery);
  SLUICE_TRY(lane->start(options.threads));
  return lane;
}

}  // namespace sluice::io
