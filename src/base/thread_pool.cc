#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <memory>

#include "base/check.h"

namespace sluice {
namespace {

// Longer than a matrix of a small model takes, shorter than anything that a drive does.
constexpr auto kLook = std::chrono::microseconds(50);

/// Leaves the processor to the core's other thread for a moment.
void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

bool fits_processors(std::size_t threads) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 &&
         threads <= static_cast<std::size_t>(CPU_COUNT(&set));
}

}  // namespace

struct ThreadPool::Start {
  ThreadPool* pool;
  int worker;
};

void* ThreadPool::thread_main(void* start) {
  const std::unique_ptr<Start> own(static_cast<Start*>(start));
  own->pool->serve(own->worker);
  return nullptr;
}

ThreadPool::ThreadPool(int threads) {
  SLUICE_CHECK(threads >= 1);
  looks_ = fits_processors(static_cast<std::size_t>(threads));  // before any thread asks
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kThreadStackBytes);
  for (int worker = 1; worker < threads; ++worker) {
    auto start = std::make_unique<Start>(Start{this, worker});
    pthread_t handle;
    // With fewer threads than asked the work is the same, only slower.
    if (pthread_create(&handle, &attributes, &thread_main, start.get()) != 0) break;
    static_cast<void>(start.release());
    handles_.push_back(handle);
  }
  pthread_attr_destroy(&attributes);
}

ThreadPool::~ThreadPool() {
  {
    const std::scoped_lock lock(mutex_);
    stop_.store(true);
  }
  wake_.notify_all();
  for (const pthread_t handle : handles_) pthread_join(handle, nullptr);
}

void ThreadPool::run(std::size_t items, FunctionRef<void(std::size_t, int)> work) {
  if (items == 0) return;
  if (handles_.empty() || items == 1) {
    for (std::size_t item = 0; item < items; ++item) work(item, 0);
    return;
  }
  bool must_wake = false;
  {
    const std::scoped_lock lock(mutex_);
    SLUICE_CHECK(work_ == nullptr);
    work_ = &work;
    items_ = items;
    next_.store(0, std::memory_order_relaxed);
    busy_.store(static_cast<int>(handles_.size()), std::memory_order_relaxed);
    // What was set above is there for whoever sees the new number.
    generation_.fetch_add(1, std::memory_order_release);
    must_wake = sleeping_ > 0;
  }
  if (must_wake) wake_.notify_all();
  take_items(0);
  wait_until_done();
  work_ = nullptr;
}

template <class Condition>
bool ThreadPool::comes_soon(Condition condition) const {
  if (!looks_) return condition();
  constexpr int kLooksPerClock = 32;
  const auto end = std::chrono::steady_clock::now() + kLook;
  do {
    for (int look = 0; look < kLooksPerClock; ++look) {
      if (condition()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

void ThreadPool::wait_until_done() {
  const auto is_done = [this] { return busy_.load(std::memory_order_acquire) == 0; };
  if (comes_soon(is_done)) return;
  std::unique_lock lock(mutex_);
  done_.wait(lock, is_done);
}

void ThreadPool::wait_for_run(std::uint64_t served) {
  const auto is_there = [this, served] {
    return stop_.load() || generation_.load(std::memory_order_acquire) != served;
  };
  if (comes_soon(is_there)) return;
  std::unique_lock lock(mutex_);
  ++sleeping_;
  wake_.wait(lock, is_there);
  --sleeping_;
}

void ThreadPool::take_items(int worker) {
  for (std::size_t item = next_.fetch_add(1); item < items_; item = next_.fetch_add(1)) {
    (*work_)(item, worker);
  }
}

void ThreadPool::serve(int worker) {
  for (std::uint64_t served = 0;; ++served) {
    wait_for_run(served);
    if (stop_.load()) return;
    take_items(worker);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    const std::scoped_lock lock(mutex_);  // or it could fall between a look and falling asleep
    done_.notify_one();
  }
}

}  // namespace sluice
