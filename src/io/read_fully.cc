#include "io/read_fully.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "io/file.h"

namespace sluice::io {
namespace {

// EAGAIN on a file means a queue that is full for a moment. A drive that says it this often in a
// row, over a quarter of a second, has failed.
constexpr int kMaxRetries = 50;
constexpr auto kRetryPause = std::chrono::milliseconds(5);

}  // namespace

ReadOutcome read_fully(ReadCall call, std::byte* to, std::uint64_t length, std::uint64_t offset,
                       CallLimits limits) {
  ReadOutcome outcome;
  int retries = 0;
  while (outcome.got < length) {
    const std::size_t wanted = std::min<std::uint64_t>(length - outcome.got, limits.max_bytes);
    const std::int64_t got = call(to + outcome.got, wanted, offset + outcome.got);
    if (got >= 0) {
      const auto usable = static_cast<std::uint64_t>(got) / limits.alignment * limits.alignment;
      if (usable == 0) return outcome;
      outcome.got += usable;
      retries = 0;
    } else if (got == -EINTR) {
      continue;
    } else if (got == -EAGAIN && retries < kMaxRetries) {
      ++retries;
      std::this_thread::sleep_for(kRetryPause);
    } else {
      outcome.error = static_cast<int>(-got);
      return outcome;
    }
  }
  return outcome;
}

ReadOutcome read_fully(const System& system, int descriptor, std::byte* to, std::uint64_t length,
                       std::uint64_t offset, CallLimits limits) {
  const auto call = [&](std::byte* into, std::size_t wanted, std::uint64_t from) {
    return system.pread(descriptor, into, wanted, from);
  };
  return read_fully(call, to, length, offset, limits);
}

Error read_error(const std::filesystem::path& path, std::uint64_t offset, std::uint64_t wanted,
                 ReadOutcome outcome) {
  if (outcome.error != 0) {
    return {ErrorKind::drive,
            fmt::format("{}: reading {} bytes at offset {} failed: {} (errno {}); {} bytes had "
                        "come. Check the drive and the system log.",
                        path.string(), wanted, offset, error_text(outcome.error), outcome.error,
                        outcome.got)};
  }
  return {ErrorKind::drive,
          fmt::format("{}: file is shorter than when it was opened: wanted {} bytes at offset {}, "
                      "got {}. Do not change a model while it is in use.",
                      path.string(), wanted, offset, outcome.got)};
}

}  // namespace sluice::io
