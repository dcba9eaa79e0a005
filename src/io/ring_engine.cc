#include "io/ring_engine.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/memory_info.h"
#include "base/thread_pool.h"
#include "io/depth_finder.h"
#include "io/file.h"
#include "io/ring_flight.h"

namespace sluice::io {
namespace {

constexpr std::size_t kSlots = kRingEntries - 1;
constexpr std::uint64_t kWakeTag = kSlots;

/// Wakes the thread that waits in the ring.
class Waker {
 public:
  Waker() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;
  ~Waker() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  int descriptor() const { return descriptor_; }
  void wake() const { static_cast<void>(::eventfd_write(descriptor_, 1)); }
  void clear() const {
    eventfd_t count = 0;
    static_cast<void>(::eventfd_read(descriptor_, &count));
  }

 private:
  const int descriptor_;
};

class UringEngine final : public RingEngine {
 public:
  explicit UringEngine(const ReaderOptions& options) : options_(options), slots_(kSlots) {
    for (std::size_t slot = 0; slot < kSlots; ++slot) free_.push_back(slot);
  }
  UringEngine(const UringEngine&) = delete;
  UringEngine& operator=(const UringEngine&) = delete;

  ~UringEngine() override {
    if (!started_) return;
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    waker_.wake();
    pthread_join(thread_, nullptr);
  }

  /// 0, or the errno for which it will not work.
  int start() {
    if (waker_.descriptor() < 0) return EMFILE;
    int error = 0;
    ring_ = options_.system->make_ring(kRingEntries, error);
    if (ring_ == nullptr) return error;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kThreadStackBytes);
    error = pthread_create(&thread_, &attributes, &UringEngine::thread_main, this);
    pthread_attr_destroy(&attributes);
    started_ = error == 0;
    return error;
  }

  std::unique_ptr<Lane> make_lane(Delivery& delivery) override;

 private:
  class RingLane;
  struct Slot {
    RingFlight flight;
    RingLane* lane = nullptr;
  };

  static void* thread_main(void* engine) {
    static_cast<UringEngine*>(engine)->serve();
    return nullptr;
  }

  void serve();
  bool fill();
  void fill(RingLane& lane);
  int most_under_way(const RingLane& lane) const;
  void start_flight(RingLane& lane, const Piece& piece);
  void read_next(std::size_t slot);
  void handle(const RingResult& result);
  void land(std::size_t slot);
  static void settle(RingLane& lane, const Piece& piece, const ReadOutcome& outcome);
  void add(RingLane& lane);
  void remove(RingLane& lane);

  const ReaderOptions options_;
  const Waker waker_;
  std::unique_ptr<Ring> ring_;  // the thread's alone once it runs, as is what follows
  std::vector<Slot> slots_;     // by the tag of the read
  std::vector<std::size_t> free_;
  int share_ = kSlots;  // that a lane may have under way
  pthread_t thread_{};
  bool started_ = false;

  std::mutex mutex_;  // guards what follows; no other lock is taken while it is held
  std::condition_variable removed_;
  std::vector<RingLane*> lanes_;
  bool stop_ = false;
};

class UringEngine::RingLane final : public Lane {
 public:
  RingLane(UringEngine& engine, Delivery& delivery)
      : engine_(engine), queue_(engine.options_.piece_bytes), delivery_(delivery) {
    engine_.add(*this);
  }
  RingLane(const RingLane&) = delete;
  RingLane& operator=(const RingLane&) = delete;
  ~RingLane() override {
    queue_.close();
    engine_.remove(*this);
  }

  RequestQueue& queue() override { return queue_; }
  void wake() override { engine_.waker_.wake(); }
  std::uint64_t memory_bytes() const override {
    // One ring and one thread serve all lanes; the first answers for them.
    return first ? kThreadStackBytes + engine_.ring_->memory_bytes() : 0;
  }

  Delivery& delivery() { return delivery_; }

  // The engine's notes.
  bool first = false;
  bool closing = false;  // guarded by the engine's mutex
  int under_way = 0;     // the thread's alone
  DepthFinder depth;     // the thread's alone

  int most_under_way() const {
    return engine_.options_.queue_depth > 0 ? engine_.options_.queue_depth : depth.depth();
  }

 private:
  UringEngine& engine_;
  RequestQueue queue_;
  Delivery& delivery_;
};

std::unique_ptr<Lane> UringEngine::make_lane(Delivery& delivery) {
  return std::make_unique<RingLane>(*this, delivery);
}

void UringEngine::add(RingLane& lane) {
  const std::scoped_lock lock(mutex_);
  lane.first = lanes_.empty();
  lanes_.push_back(&lane);
}

void UringEngine::remove(RingLane& lane) {
  std::unique_lock lock(mutex_);
  lane.closing = true;
  waker_.wake();
  removed_.wait(lock,
                [&] { return std::find(lanes_.begin(), lanes_.end(), &lane) == lanes_.end(); });
}

void UringEngine::serve() {
  ring_->poll(waker_.descriptor(), kWakeTag);
  while (fill()) {
    const int error = ring_->submit_and_wait();
    if (error < 0 && error != -EINTR) {
      // The kernel is short of something for the moment; what is under way will give it back.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    RingResult result;
    while (ring_->next(result)) handle(result);
  }
}

/// Starts what can be started. False when the engine is to stop.
bool UringEngine::fill() {
  std::vector<RingLane*> lanes;
  std::vector<RingLane*> closing;
  {
    const std::scoped_lock lock(mutex_);
    if (stop_) return false;
    lanes = lanes_;
    std::copy_if(lanes.begin(), lanes.end(), std::back_inserter(closing),
                 [](const RingLane* lane) { return lane->closing; });
  }
  // Lanes are filled one after the other: without a share the last of many would get no slot.
  share_ = std::max(1, static_cast<int>(kSlots / std::max<std::size_t>(1, lanes.size())));
  for (RingLane* lane : lanes) fill(*lane);
  // The queue of a closing lane was closed before: once idle, it stays idle.
  std::erase_if(closing, [](RingLane* lane) { return !lane->queue().idle(); });
  if (closing.empty()) return true;
  const std::scoped_lock lock(mutex_);
  for (RingLane* lane : closing) std::erase(lanes_, lane);
  removed_.notify_all();
  return true;
}

/// What a lane may have under way, whatever its depth says.
int UringEngine::most_under_way(const RingLane& lane) const {
  return std::min(lane.most_under_way(), share_);
}

void UringEngine::fill(RingLane& lane) {
  while (lane.under_way < most_under_way(lane) && !free_.empty()) {
    const std::optional<Piece> piece = lane.queue().try_take();
    if (!piece) return;
    if (piece->length == 0) {
      settle(lane, *piece, {});
    } else {
      start_flight(lane, *piece);
    }
  }
}

void UringEngine::start_flight(RingLane& lane, const Piece& piece) {
  const std::size_t slot = free_.back();
  free_.pop_back();
  slots_[slot] = {.flight = RingFlight(piece, options_.max_call_bytes), .lane = &lane};
  ++lane.under_way;
  piece.request->file.drive.begin_read(piece.request->file.path());
  read_next(slot);
}

void UringEngine::read_next(std::size_t slot) {
  const NextRead next = slots_[slot].flight.next();
  // The kernel would zero such memory on this thread, and the drives would wait meanwhile.
  const bool patient = next.patient || is_untouched(next.to, next.length);
  ring_->read(next.descriptor, next.to, next.length, next.offset, slot, patient);
}

void UringEngine::handle(const RingResult& result) {
  if (result.tag == kWakeTag) {
    waker_.clear();
    ring_->poll(waker_.descriptor(), kWakeTag);
    return;
  }
  const auto slot = static_cast<std::size_t>(result.tag);
  RingFlight& flight = slots_[slot].flight;
  const RingFlight::State state = flight.advance(result.result);
  if (state == RingFlight::State::more) return read_next(slot);
  // All drives wait meanwhile, so this is not done for a request that is lost anyway.
  const bool stuck = state == RingFlight::State::stuck;
  if (stuck && !slots_[slot].lane->queue().failed(flight.piece())) flight.finish_here();
  land(slot);
}

void UringEngine::land(std::size_t slot) {
  const Slot landed = slots_[slot];
  free_.push_back(slot);
  RingLane& lane = *landed.lane;
  const Piece& piece = landed.flight.piece();
  const PieceResult& result = landed.flight.result();
  OpenFile& file = piece.request->file;
  lane.depth.report(result.transferred, lane.under_way >= most_under_way(lane), Clock::now());
  --lane.under_way;
  if (options_.queue_depth == 0) file.drive.note_depth(lane.depth.depth());
  file.drive.end_read(result.transferred, piece.priority);
  file.bytes += result.transferred;
  settle(lane, piece, result.outcome);
}

void UringEngine::settle(RingLane& lane, const Piece& piece, const ReadOutcome& outcome) {
  for (Request& request : lane.queue().finish(piece, outcome)) {
    lane.delivery().deliver(request, lane.queue());
  }
}

}  // namespace

std::unique_ptr<RingEngine> make_ring_engine(const ReaderOptions& options, int& error) {
  auto engine = std::make_unique<UringEngine>(options);
  error = engine->start();
  if (error != 0) return nullptr;
  return engine;
}

}  // namespace sluice::io
