// Reading a whole range in as many system calls as it takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

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

/// Reads `length` bytes from `offset` on. Goes on after short reads and EINTR; after EAGAIN it
/// waits a little, a bounded number of times. Asks for at most `max_call_bytes` at a time, which
/// must keep the alignment that the descriptor asks for.
ReadOutcome read_fully(const System& system, int descriptor, std::byte* to, std::uint64_t length,
                       std::uint64_t offset, std::size_t max_call_bytes = kMaxCallBytes);

/// The sentence for a range that did not arrive.
Error read_error(const std::filesystem::path& path, std::uint64_t offset, std::uint64_t wanted,
                 ReadOutcome outcome);

}  // namespace sluice::io
