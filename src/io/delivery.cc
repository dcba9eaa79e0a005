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
    const std::uint64_t bytes = request.asked.extent.length;
    by_purpose_[static_cast<std::size_t>(request.asked.purpose)] += bytes;
    by_priority_[static_cast<std::size_t>(request.asked.priority)] += bytes;
    sink->complete({request.asked.tag, request.bytes()});
  }
  // The sink may be gone from here on: only its address is used.
  queue.delivered(sink);
}

void Delivery::add_statistics(ReaderStatistics& statistics) const {
  for (std::size_t purpose = 0; purpose < kPurposes; ++purpose) {
    statistics.requested_bytes[purpose] = by_purpose_[purpose].load();
  }
  for (std::size_t priority = 0; priority < kPriorities; ++priority) {
    statistics.delivered_bytes[priority] = by_priority_[priority].load();
  }
}

}  // namespace sluice::io
