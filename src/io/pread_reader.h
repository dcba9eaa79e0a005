// Reading with a pool of threads and direct I/O: works everywhere.
#pragma once

#include <memory>

#include "io/reader.h"
#include "io/reader_options.h"

namespace sluice::io {

/// A Reader whose threads read pieces with pread(), past the page cache where the file system takes
/// that (see DirectFile).
std::unique_ptr<Reader> make_pread_reader(const ReaderOptions& options = {});

}  // namespace sluice::io
