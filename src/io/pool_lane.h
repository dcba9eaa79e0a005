// A drive served by threads that read one piece at a time each.
#pragma once

#include <memory>

#include "io/lane.h"
#include "io/reader_options.h"

namespace sluice::io {

/// Starts up to `options.threads` threads. `thread_bytes` is what a thread may hold beside its
/// stack while it reads. Fails with ErrorKind::memory when not even one thread can be had.
Result<std::unique_ptr<Lane>> make_pool_lane(const ReaderOptions& options,
                                             std::uint64_t thread_bytes, Delivery& delivery);

}  // namespace sluice::io
