#include "io/uring_reader.h"

#include "base/log.h"
#include "io/direct_file.h"
#include "io/lane_reader.h"
#include "io/pool_lane.h"
#include "io/pread_reader.h"
#include "io/ring_engine.h"

namespace sluice::io {

std::unique_ptr<Reader> make_uring_reader(const ReaderOptions& options) {
  int error = 0;
  const std::shared_ptr<RingEngine> engine = make_ring_engine(options, error);
  if (engine == nullptr) {
    log_note_once(
        fmt::format("io_uring cannot be used here ({}); reading with a pool of threads instead",
                    error_text(error)));
    return make_pread_reader(options);
  }
  auto lane_maker = [engine, options](const OpenFile& first,
                                      Delivery& delivery) -> Result<std::unique_ptr<Lane>> {
    // Through the page cache one thread would do all the copying, and the kernel starts others.
    if (!first.pieces->direct()) return make_pool_lane(options, 0, delivery);
    return engine->make_lane(delivery);
  };
  return std::make_unique<LaneReader>(options, direct_file_maker(options), lane_maker);
}

}  // namespace sluice::io
