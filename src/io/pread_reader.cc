#include "io/pread_reader.h"

#include "io/direct_file.h"
#include "io/lane_reader.h"
#include "io/pool_lane.h"

namespace sluice::io {

std::unique_ptr<Reader> make_pread_reader(const ReaderOptions& options) {
  auto lane_maker = [options](const OpenFile&, Delivery& delivery) {
    return make_pool_lane(options, 0, delivery);
  };
  return std::make_unique<LaneReader>(options, direct_file_maker(options), lane_maker);
}

}  // namespace sluice::io
