#include "base/thread_pool.h"

#include <pthread.h>

#include <memory>

#include "base/check.h"

namespace sluice {

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
    stop_ = true;
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
  {
    const std::scoped_lock lock(mutex_);
    SLUICE_CHECK(work_ == nullptr);
    work_ = &work;
    items_ = items;
    next_.store(0, std::memory_order_relaxed);
    busy_ = static_cast<int>(handles_.size());
    ++generation_;
  }
  wake_.notify_all();
  take_items(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
  work_ = nullptr;
}

void ThreadPool::take_items(int worker) {
  for (std::size_t item = next_.fetch_add(1); item < items_; item = next_.fetch_add(1)) {
    (*work_)(item, worker);
  }
}

void ThreadPool::serve(int worker) {
  std::uint64_t served = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stop_ || generation_ != served; });
    if (stop_) return;
    served = generation_;
    lock.unlock();
    take_items(worker);
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace sluice
