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

namespace sluice::server {

class StateWriter {
 public:
  /// `disk` must outlive the writer.
  static Result<std::unique_ptr<StateWriter>> start(DiskStates& disk);
  /// Writes what waits first.
  ~StateWriter();
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  static std::uint64_t memory_bytes();

  struct Item {
    StateHead head;  ///< its sizes are filled in by submit()
    std::vector<std::int32_t> ids;
    std::vector<std::byte> trail = {};
    StateStore::Shared saved = {};  ///< null: no sequence, and no logits
  };
  /// Takes the place of what waits under the same key. If more than a few wait, the oldest of them
  /// is not written: the drive is slower than the engine, and what is newer is worth more.
  void submit(Item item);
  /// The same at once, straight from the sequence: the caller waits. For want of room for a copy.
  void write_now(Item item, const model::SequenceState& sequence, std::span<const float> logits);
  /// After what was submitted before.
  void remove_answer(std::uint64_t key);
  bool is_idle() const;
  /// Waits until all that was submitted is written.
  void flush();

 private:
  explicit StateWriter(DiskStates& disk) : disk_(disk) {}
  void work();
  void write(const Item& item);
  void report(const Status& status);

  DiskStates& disk_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> waiting_;
  bool writing_ = false;
  bool stop_ = false;
  std::mutex said_mutex_;
  std::string said_;  // the last complaint, which is not repeated
  std::optional<Thread> thread_;
};

}  // namespace sluice::server
