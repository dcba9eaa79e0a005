// Choosing a reader.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "io/reader.h"
#include "io/reader_options.h"

namespace sluice::io {

enum class IoMode : std::uint8_t {
  pread,      ///< a pool of threads, direct I/O
  mmap,       ///< files mapped into memory
  uring,      ///< io_uring, direct I/O; a pool of threads where the system refuses it
  automatic,  ///< the fastest that works here
};

/// "pread", "mmap", "uring" or "automatic"; anything else fails with ErrorKind::usage.
Result<IoMode> parse_io_mode(std::string_view text);
std::string_view name_of(IoMode mode);

/// Fails with ErrorKind::usage when an option is out of its range.
Result<std::unique_ptr<Reader>> make_reader(IoMode mode, const ReaderOptions& options = {});

}  // namespace sluice::io
