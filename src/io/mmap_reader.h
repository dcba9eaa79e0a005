// Reading by mapping files into memory: the baseline to compare with, and for files that fit into
// the page cache.
#pragma once

#include <memory>

#include "io/reader.h"
#include "io/reader_options.h"

namespace sluice::io {

/// A Reader that copies out of mapped files, on a few threads per drive, and takes the mapped pages
/// out of the process behind the copy, so that they never add up. A file that is cut while it is
/// mapped is an error like any other, not a signal.
std::unique_ptr<Reader> make_mmap_reader(const ReaderOptions& options = {});

}  // namespace sluice::io
