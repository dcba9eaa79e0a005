#include "io/make_reader.h"

#include "io/mmap_reader.h"
#include "io/pread_reader.h"
#include "io/uring_reader.h"

namespace sluice::io {
namespace {

constexpr int kMaxThreads = 256;
constexpr int kMaxQueueDepth = 128;

Status check(const ReaderOptions& options) {
  if (options.threads < 1 || options.threads > kMaxThreads) {
    return fail(ErrorKind::usage, "{} reader threads: expected 1 to {}", options.threads,
                kMaxThreads);
  }
  if (options.queue_depth < 0 || options.queue_depth > kMaxQueueDepth) {
    return fail(ErrorKind::usage, "--queue-depth {}: expected 1 to {}", options.queue_depth,
                kMaxQueueDepth);
  }
  if (options.piece_bytes == 0 || options.piece_bytes % kRoomAlignment != 0) {
    return fail(ErrorKind::usage, "--read-size {}: expected a multiple of {}", options.piece_bytes,
                kRoomAlignment);
  }
  if (options.max_call_bytes == 0 || options.max_call_bytes % kRoomAlignment != 0) {
    return fail(ErrorKind::usage, "{} bytes per system call: expected a multiple of {}",
                options.max_call_bytes, kRoomAlignment);
  }
  return {};
}

}  // namespace

Result<IoMode> parse_io_mode(std::string_view text) {
  for (const IoMode mode : {IoMode::pread, IoMode::mmap, IoMode::uring, IoMode::automatic}) {
    if (text == name_of(mode)) return mode;
  }
  return fail(ErrorKind::usage,
              "\"{}\" is no way to read: expected pread, mmap, uring or automatic", text);
}

std::string_view name_of(IoMode mode) {
  switch (mode) {
    case IoMode::pread:
      return "pread";
    case IoMode::mmap:
      return "mmap";
    case IoMode::uring:
      return "uring";
    case IoMode::automatic:
      return "automatic";
  }
  return "?";
}

Result<std::unique_ptr<Reader>> make_reader(IoMode mode, const ReaderOptions& options) {
  SLUICE_TRY(check(options));
  switch (mode) {
    case IoMode::pread:
      return make_pread_reader(options);
    case IoMode::mmap:
      return make_mmap_reader(options);
    case IoMode::uring:
    case IoMode::automatic:
      return make_uring_reader(options);
  }
  return fail(ErrorKind::usage, "unknown way to read");
}

}  // namespace sluice::io
