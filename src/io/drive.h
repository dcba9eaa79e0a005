// One drive as the readers count it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>

#include "base/clock.h"
#include "io/reader.h"

namespace sluice::io {

/// What is known and counted about one drive (one st_dev). Thread-safe.
class Drive {
 public:
  Drive(std::uint64_t device, std::string folder, std::size_t index)
      : device_(device), folder_(std::move(folder)), index_(index) {}

  std::uint64_t device() const { return device_; }
  const std::string& folder() const { return folder_; }  ///< of the first file opened on it
  std::size_t index() const { return index_; }           ///< 0, 1, ... in order of appearance

  /// Around every read: the drive is busy while at least one is under way. `file` outlives it.
  void begin_read(const std::filesystem::path& file);
  void end_read(std::uint64_t bytes, Priority priority);

  void count_request() { requests_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t requests() const { return requests_.load(std::memory_order_relaxed); }
  std::uint64_t bytes() const;
  std::uint64_t bytes(Priority priority) const {
    return bytes_[static_cast<std::size_t>(priority)].load(std::memory_order_relaxed);
  }
  double busy_s() const;

  /// Says to the user, once per stall, that reads are under way and none has come back for so long;
  /// end_read() says when that is over.
  void report_stall(Clock::duration limit);

  /// How many reads its ring keeps under way at present; 0 where nobody looks for that.
  void note_depth(int depth) { depth_.store(depth, std::memory_order_relaxed); }
  int depth() const { return depth_.load(std::memory_order_relaxed); }

  /// Says once per drive, to the user, that its files are read through the page cache.
  void note_buffered(const std::string& path, const std::string& reason);

 private:
  const std::uint64_t device_;
  const std::string folder_;
  const std::size_t index_;
  std::atomic<std::uint64_t> requests_{0};
  std::array<std::atomic<std::uint64_t>, kPriorities> bytes_{};
  std::atomic<int> depth_{0};
  std::atomic<bool> noted_{false};
  mutable std::mutex mutex_;  // guards what follows
  int under_way_ = 0;
  Clock::time_point busy_since_;
  double busy_s_ = 0;
  Clock::time_point progress_;  // when the last read came back, or the first went out
  const std::filesystem::path* asked_ = nullptr;  // the file of the read that went out last
  bool stalled_ = false;                          // and the user was told
};

}  // namespace sluice::io
