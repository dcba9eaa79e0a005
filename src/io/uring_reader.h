// Reading with io_uring: one thread keeps deep queues on all drives.
#pragma once

#include <memory>

#include "io/reader.h"
#include "io/reader_options.h"

namespace sluice::io {

/// A Reader with one ring for all drives that take direct I/O, and a pool of threads for each drive
/// that does not. Where the system refuses a ring it says so once and is make_pread_reader().
std::unique_ptr<Reader> make_uring_reader(const ReaderOptions& options = {});

}  // namespace sluice::io
