#include "server/state_writer.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace sluice::server {
namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;
constexpr std::size_t kMostWaiting = 4;

}  // namespace

std::uint64_t StateWriter::memory_bytes() { return kStackBytes; }

Result<std::unique_ptr<StateWriter>> StateWriter::start(DiskStates& disk) {
  std::unique_ptr<StateWriter> writer(new StateWriter(disk));
  StateWriter* const self = writer.get();
  SLUICE_ASSIGN(Thread thread, Thread::start(kStackBytes, [self] { self->work(); }));
  writer->thread_.emplace(std::move(thread));
  return writer;
}

StateWriter::~StateWriter() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.reset();  // joins
}

void StateWriter::submit(Item item) {
  item.head.ids = item.ids.size();
  item.head.trail_bytes = item.trail.size();
  if (item.saved) {
    item.head.state_bytes = item.saved->state_bytes;
    item.head.logits = item.saved->logits.size();
  }
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(waiting_, [&](const Item& each) {
      return each.head.kind == item.head.kind && each.head.key == item.head.key;
    });
    if (waiting_.size() >= kMostWaiting) waiting_.pop_front();
    waiting_.push_back(std::move(item));
  }
  changed_.notify_all();
}

void StateWriter::write_now(Item item, const model::SequenceState& sequence,
                            std::span<const float> logits) {
  item.head.ids = item.ids.size();
  item.head.trail_bytes = item.trail.size();
  item.head.state_bytes = sequence.saved_bytes();
  item.head.logits = logits.size();
  report(disk_.write(item.head, item.ids, logits, item.trail,
                     [&](ByteSink sink) { return sequence.write(sink); }));
}

void StateWriter::remove_answer(std::uint64_t key) {
  flush();
  disk_.remove_answer(key);
}

bool StateWriter::is_idle() const {
  const std::scoped_lock lock(mutex_);
  return waiting_.empty() && !writing_;
}

void StateWriter::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && !writing_; });
}

void StateWriter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    {
      const Item item = std::move(waiting_.front());
      waiting_.pop_front();
      writing_ = true;
      lock.unlock();
      write(item);
    }
    lock.lock();
    writing_ = false;
    changed_.notify_all();
  }
}

void StateWriter::write(const Item& item) {
  const std::span<const float> logits =
      item.saved ? std::span<const float>(item.saved->logits) : std::span<const float>();
  report(disk_.write(item.head, item.ids, logits, item.trail,
                     [&](ByteSink sink) { return sink(item.saved->state()); }));
}

void StateWriter::report(const Status& status) {
  const std::scoped_lock lock(said_mutex_);
  if (status) {
    said_.clear();
  } else if (status.error().message != said_) {
    said_ = status.error().message;
    log_warning("a conversation is not kept: {}", said_);
  }
}

}  // namespace sluice::server
