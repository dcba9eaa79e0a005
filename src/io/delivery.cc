#include "io/delivery.h"

#include <utility>

namespace sluice::io {

void Delivery::deliver(Request& request, RequestQueue& queue) {
  CompletionSink* const sink = request.asked.sink;
  if (request.error) {
    if (request.error->kind != ErrorKind::interrupted) ++request.file.faults;
    sink->complete({request.asked.tag, tl::unexpected(*std::move(request.error))});
  } else {
    ++request.file.requests;
    request.file.drive.count_request();
    bytes_[static_cast<std::size_t>(request.asked.purpose)] += request.asked.extent.length;
    sink->complete({request.asked.tag, request.bytes()});
  }
  // The sink may be gone from here on: only its address is used.
  queue.delivered(sink);
}

void Delivery::add_statistics(ReaderStatistics& statistics) const {
  for (std::size_t purpose = 0; purpose < kPurposes; ++purpose) {
    statistics.requested_bytes[purpose] = bytes_[purpose].load();
  }
}

}  // namespace sluice::io
