// The kernel's submission and completion rings, behind an interface that tests can put faults into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sluice::io {

struct RingResult {
  std::uint64_t tag = 0;
  std::int64_t result = 0;  ///< bytes, or -errno
};

/// Used by one thread at a time. At most as many operations may be outstanding as the ring was made
/// for.
class Ring {
 public:
  virtual ~Ring() = default;

  /// Queues a read. A `patient` one goes straight to a kernel thread that may block, where others
  /// are tried without blocking first.
  virtual void read(int descriptor, std::byte* to, std::size_t length, std::uint64_t offset,
                    std::uint64_t tag, bool patient) = 0;
  /// Queues a wait until `descriptor` can be read.
  virtual void poll(int descriptor, std::uint64_t tag) = 0;

  /// Hands what is queued to the kernel and waits until at least one result is there. Returns
  /// -errno when the kernel would not take them now; they stay queued.
  virtual int submit_and_wait() = 0;
  /// The next result, if one is there.
  virtual bool next(RingResult& result) = 0;

  /// Memory shared with the kernel, in bytes.
  virtual std::uint64_t memory_bytes() const = 0;
};

/// A ring for `entries` outstanding operations; null where the kernel refuses, with `error` set.
std::unique_ptr<Ring> make_kernel_ring(unsigned entries, int& error);

}  // namespace sluice::io
