#include "server/state_writer.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace sluice::server {
namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;
constexpr std::size_t kMostWaiting = 4;
// A rate may be so small that what is owed has no end that a clock could name.
constexpr double kLongestWait = 3600;  // seconds

/// Drops what lies under the key of `head`, and the oldest of too many.
template <typename Items>
void make_place(Items& items, const StateHead& head) {
  std::erase_if(items, [&](const auto& each) {
    return each.head.kind == head.kind && each.head.key == head.key;
  });
  if (items.size() >= kMostWaiting) items.pop_front();
}

void fill_in_sizes(StateWriter::Item& item) {
  item.head.ids = item.ids.size();
  item.head.trail_bytes = item.trail.size();
  if (!item.saved) return;
  item.head.state_bytes = item.saved->state_bytes;
  item.head.logits = item.saved->logits.size();
}

}  // namespace

std::uint64_t StateWriter::memory_bytes() { return kStackBytes; }

Result<std::unique_ptr<StateWriter>> StateWriter::start(DiskStates& disk,
                                                        std::optional<std::uint64_t> rate) {
  std::unique_ptr<StateWriter> writer(new StateWriter(disk, rate));
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

bool StateWriter::is_free() const {
  const std::scoped_lock lock(mutex_);
  return waiting_.empty() && later_.empty() && !writing_ && !budget_.owes(Clock::now());
}

void StateWriter::submit(Item item) {
  fill_in_sizes(item);
  const std::scoped_lock lock(mutex_);
  enter(std::move(item));
}

/// The lock is held.
void StateWriter::enter(Item item) {
  changed_.notify_all();
  budget_.spend(item.head.file_bytes());
  make_place(waiting_, item.head);
  waiting_.push_back(std::move(item));
}

void StateWriter::submit_later(Item item) {
  fill_in_sizes(item);
  const std::scoped_lock lock(mutex_);
  if (later_.empty() && !budget_.owes(Clock::now())) return enter(std::move(item));
  make_place(later_, item.head);
  later_.push_back({item.head, item.adapter, item.saved});
  changed_.notify_all();
}

void StateWriter::write_now(Item item, const model::SequenceState& sequence,
                            std::span<const float> logits) {
  fill_in_sizes(item);
  item.head.state_bytes = sequence.saved_bytes();
  item.head.logits = logits.size();
  {
    const std::scoped_lock lock(mutex_);
    budget_.spend(item.head.file_bytes());
  }
  const Status status = disk_.write(item.head, item.ids, logits, item.trail,
                                    [&](ByteSink sink) { return sequence.write(sink); });
  report(status);
  if (status) replace_part(item);
}

void StateWriter::remove_answer(std::uint64_t key) {
  flush();
  disk_.remove(StateKind::answer, key);
}

void StateWriter::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && !writing_; });
}

void StateWriter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wait_for_work(lock);
    begin_later();
    if (waiting_.empty() && later_.empty() && stop_) return;
    if (waiting_.empty()) continue;
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

/// Until something waits to be written at once, or what waits longer may have been paid for.
void StateWriter::wait_for_work(std::unique_lock<std::mutex>& lock) {
  const auto has_work = [&] { return stop_ || !waiting_.empty(); };
  if (later_.empty()) {
    return changed_.wait(lock, [&] { return has_work() || !later_.empty(); });
  }
  const double owed = std::min(budget_.seconds_owed(Clock::now()), kLongestWait);
  changed_.wait_for(lock, std::chrono::duration<double>(owed), has_work);
}

/// The next of what waited for nothing to be owed, if that is so; the lock is held.
void StateWriter::begin_later() {
  if (later_.empty() || (budget_.owes(Clock::now()) && !stop_)) return;
  const Later next = std::move(later_.front());
  later_.pop_front();
  StateStore::Shared saved = next.saved.lock();
  if (!saved) return;
  Item item = {next.head, saved->ids, {}, std::move(saved), next.adapter};
  fill_in_sizes(item);
  enter(std::move(item));
}

void StateWriter::write(const Item& item) {
  const std::span<const float> logits =
      item.saved ? std::span<const float>(item.saved->logits) : std::span<const float>();
  const Status status = disk_.write(item.head, item.ids, logits, item.trail,
                                    [&](ByteSink sink) { return sink(item.saved->state()); });
  report(status);
  if (status) replace_part(item);
}

/// One part of a prompt at most lies on the disk, and none once the whole prompt does. (Those of
/// prompts that were given up grow old there like all others.)
void StateWriter::replace_part(const Item& item) {
  if (item.head.kind != StateKind::conversation) return;
  const std::scoped_lock lock(written_mutex_);
  if (part_ && part_->ids < item.ids.size() &&
      hash_of_ids(std::span(item.ids).first(part_->ids), item.adapter) == part_->key) {
    disk_.remove(StateKind::conversation, part_->key);
    part_.reset();
  }
  if (item.is_part) part_ = {item.head.key, item.ids.size()};
}

void StateWriter::report(const Status& status) {
  const std::scoped_lock lock(written_mutex_);
  if (status) {
    said_.clear();
  } else if (status.error().kind == ErrorKind::memory && std::exchange(too_large_said_, true)) {
    return;  // others will be, too, and each of another size
  } else if (status.error().message != said_) {
    said_ = status.error().message;
    log_warning("a conversation is not kept: {}", said_);
  }
}

}  // namespace sluice::server
