// Reading a whole range in as many system calls as it takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "base/function_ref.h"
#include "base/result.h"
#include "io/system.h"

namespace sluice::io {

/// What became of a range: `got` bytes arrived, and `error` is 0 when they are all there are.
struct ReadOutcome {
  std::uint64_t got = 0;
  int error = 0;  ///< errno of the call that ended it; 0 with got < wanted: end of the file

  bool complete(std::uint64_t wanted) const { return error == 0 && got == wanted; }
};

/// One system call never asks for more: Linux itself stops at a little under 2 GiB.
inline constexpr std::size_t kMaxCallBytes = std::size_t{1} << 30;

/// How read_fully() may ask.
struct CallLimits {
  std::size_t max_bytes = kMaxCallBytes;  ///< at most this much per call; a multiple of `alignment`
  std::uint64_t alignment = 1;            ///< of every offset and length that is asked for
};

/// One attempt to read: the bytes that came, 0 at the end of the file, or -errno.
using ReadCall = FunctionRef<std::int64_t(std::byte* to, std::size_t length, std::uint64_t offset)>;

/// Reads `length` bytes from `offset` on. Goes on after short reads and EINTR; after EAGAIN it
/// waits a little, a bounded number of times. With an alignment it stops early, without an error,
/// where a short read leaves less than one unit of it: the caller has to go on without.
ReadOutcome read_fully(ReadCall call, std::byte* to, std::uint64_t length, std::uint64_t offset,
                       CallLimits limits = {});

/// As above, with pread().
ReadOutcome read_fully(const System& system, int descriptor, std::byte* to, std::uint64_t length,
                       std::uint64_t offset, CallLimits limits = {});

/// The sentence for a range that did not arrive.
Error read_error(const std::filesystem::path& path, std::uint64_t offset, std::uint64_t wanted,
                 ReadOutcome outcome);

}  // namespace sluice::io
