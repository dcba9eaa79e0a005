// The thread that brings sequences to the disk while the engine goes on.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/disk_states.h"
#include "server/state_store.h"
#include "server/thread.h"
#include "server/write_budget.h"

namespace sluice::server {

class StateWriter {
 public:
  /// `disk` must outlive the writer. `rate`: bytes per second on average, see WriteBudget.
  static Result<std::unique_ptr<StateWriter>> start(DiskStates& disk,
                                                    std::optional<std::uint64_t> rate);
  /// Writes what waits first, whatever is owed.
  ~StateWriter();
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  static std::uint64_t memory_bytes();

  struct Item {
    StateHead head;  ///< its sizes are filled in by submit()
    std::vector<std::int32_t> ids;
    std::vector<std::byte> trail = {};
    StateStore::Shared saved = {};  ///< null: no sequence, and no logits
    std::uint64_t adapter = 0;      ///< digest of the adapter of a conversation
    bool is_part = false;           ///< StateStore::save_part()
  };
  /// Whether a sequence that is submitted now would be written at once.
  bool is_free() const;
  /// To be written at once. Takes the place of what waits under the same key. If more than a few
  /// wait, the oldest of them is not written: the drive is slower than the engine, and what is
  /// newer is worth more.
  void submit(Item item);
  /// The same of a conversation, once nothing is owed. It takes no room from others meanwhile: if
  /// its copy goes, it is not written.
  void submit_later(Item item);
  /// What submit() does at once, straight from the sequence: the caller waits. For want of room for
  /// a copy.
  void write_now(Item item, const model::SequenceState& sequence, std::span<const float> logits);
  /// After what was submitted before.
  void remove_answer(std::uint64_t key);
  /// Waits until all that was to be written at once is.
  void flush();

 private:
  /// What submit_later() was given.
  struct Later {
    StateHead head;
    std::uint64_t adapter = 0;
    std::weak_ptr<const StateStore::Saved> saved;
  };
  struct Part {
    std::uint64_t key = 0;
    std::size_t ids = 0;
  };
  StateWriter(DiskStates& disk, std::optional<std::uint64_t> rate)
      : disk_(disk), budget_(rate, Clock::now()) {}
  void work();
  void wait_for_work(std::unique_lock<std::mutex>& lock);
  void begin_later();
  void enter(Item item);
  void write(const Item& item);
  void replace_part(const Item& item);
  void report(const Status& status);

  DiskStates& disk_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  WriteBudget budget_;
  std::deque<Item> waiting_;  // budget_ has paid for them
  std::deque<Later> later_;
  bool writing_ = false;
  bool stop_ = false;
  std::mutex written_mutex_;
  std::string said_;  // the last complaint, which is not repeated
  bool too_large_said_ = false;
  std::optional<Part> part_;  // of a prompt, that was written last
  std::optional<Thread> thread_;
};

}  // namespace sluice::server
