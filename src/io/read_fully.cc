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

ReadOutcome read_fully(const System& system, int descriptor, std::byte* to, std::uint64_t length,
                       std::uint64_t offset, std::size_t max_call_bytes) {
  ReadOutcome outcome;
  int retries = 0;
  while (outcome.got < length) {
    const std::size_t wanted = std::min<std::uint64_t>(length - outcome.got, max_call_bytes);
    const std::int64_t got =
        system.pread(descriptor, to + outcome.got, wanted, offset + outcome.got);
    if (got > 0) {
      outcome.got += static_cast<std::uint64_t>(got);
      retries = 0;
    } else if (got == 0) {
      return outcome;
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
