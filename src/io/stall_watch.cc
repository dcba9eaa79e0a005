#include "io/stall_watch.h"

#include <utility>

namespace sluice::io {
namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;  // it prints a line, or hands reads on

}  // namespace

StallWatch::StallWatch(std::chrono::milliseconds interval, std::function<void()> look)
    : interval_(interval), look_(std::move(look)) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  started_ = pthread_create(&thread_, &attributes, &StallWatch::thread_main, this) == 0;
  pthread_attr_destroy(&attributes);
}

StallWatch::~StallWatch() {
  if (!started_) return;
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  pthread_join(thread_, nullptr);
}

std::uint64_t StallWatch::memory_bytes() const { return started_ ? kStackBytes : 0; }

void* StallWatch::thread_main(void* watch) {
  static_cast<StallWatch*>(watch)->serve();
  return nullptr;
}

void StallWatch::serve() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, interval_, [this] { return stop_; })) {
    lock.unlock();
    look_();
    lock.lock();
  }
}

}  // namespace sluice::io
