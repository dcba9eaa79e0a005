// System calls that go wrong on purpose, for tests.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "io/system.h"

namespace sluice::io {

/// One way in which reading system calls fail. Calls are counted from 0 per fault, over the calls
/// that it could hit, from the moment it was armed.
struct SystemFault {
  enum class Kind {
    short_read,     ///< half of what was asked (at least one byte) arrives
    end_of_file,    ///< nothing arrives
    interrupted,    ///< EINTR
    again,          ///< EAGAIN
    refuse_direct,  ///< EINVAL, on direct reads only
    strict_direct,  ///< EINVAL on direct reads beyond the end or not in whole blocks of 512
    error,          ///< `error_number`
    delay,          ///< the call is right, after a random time of up to `max_delay`
    shrink,         ///< the file ends at `size`
    refuse_ring,    ///< no io_uring: `error_number`
    busy_ring,      ///< the ring takes nothing now: `error_number`
    refuse_copy,    ///< no copies from mapped memory: `error_number`
  };
  Kind kind = Kind::error;
  std::string path_ending = {};  ///< only for files whose path ends like this
  bool direct_only = false;      ///< only direct reads
  std::uint64_t from = 0;        ///< the first call that is hit
  std::uint64_t every = 1;       ///< then each so-many-th
  std::uint64_t count = std::numeric_limits<std::uint64_t>::max();  ///< so often
  std::uint64_t size = 0;
  int error_number = 5;  // EIO
  std::chrono::microseconds max_delay{0};
};

/// The operating system, with faults. Thread-safe.
class FaultySystem final : public System {
 public:
  explicit FaultySystem(std::vector<SystemFault> faults, std::uint64_t seed = 1);

  /// Nothing goes wrong before.
  void arm() { armed_ = true; }
  void disarm() { armed_ = false; }
  /// How often a fault was put in, delays included.
  std::uint64_t hits() const { return hits_; }

  int open(const char* path, bool direct) const override;
  void close(int descriptor) const override;
  int describe(int descriptor, FileFacts& facts) const override;
  std::int64_t pread(int descriptor, std::byte* to, std::size_t length,
                     std::uint64_t offset) const override;
  const std::byte* map(int descriptor, std::uint64_t length, int& error) const override;
  void unmap(const std::byte* mapping, std::uint64_t length) const override;
  std::int64_t copy_mapped(std::byte* to, const std::byte* from, std::size_t length) const override;
  std::unique_ptr<Ring> make_ring(unsigned entries, int& error) const override;

 private:
  friend class FaultyRing;
  struct Opened {
    std::string path;
    bool direct = false;
    std::uint64_t size = 0;
  };
  struct Mapped {
    Opened file;
    std::uint64_t length = 0;
  };
  /// What to do to one call.
  struct Verdict {
    std::int64_t result = 0;  // when negative or `decided`, the call's result
    bool decided = false;
    std::size_t length;  // what to ask the system for
    std::chrono::microseconds delay{0};
  };

  bool happens(SystemFault::Kind kind, int& error_number) const;
  bool is_due(std::size_t fault) const;
  Opened file_of(int descriptor) const;
  Verdict judge(const Opened& file, std::size_t length, std::uint64_t offset) const;
  void apply(const SystemFault& fault, const Opened& file, std::uint64_t offset,
             Verdict& verdict) const;

  const std::vector<SystemFault> faults_;
  std::atomic<bool> armed_{false};
  mutable std::atomic<std::uint64_t> hits_{0};
  mutable std::mutex mutex_;  // guards what follows
  mutable std::mt19937_64 random_;
  mutable std::vector<std::uint64_t> calls_;  // by fault
  mutable std::map<int, Opened> opened_;
  mutable std::map<const std::byte*, Mapped> mapped_;
};

}  // namespace sluice::io
