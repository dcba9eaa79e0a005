#include "io/drive.h"

#include "base/log.h"

namespace sluice::io {

void Drive::begin_read() {
  const std::scoped_lock lock(mutex_);
  if (under_way_++ == 0) busy_since_ = Clock::now();
}

std::uint64_t Drive::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& bytes : bytes_) sum += bytes.load(std::memory_order_relaxed);
  return sum;
}

void Drive::end_read(std::uint64_t bytes, Priority priority) {
  bytes_[static_cast<std::size_t>(priority)].fetch_add(bytes, std::memory_order_relaxed);
  const std::scoped_lock lock(mutex_);
  if (--under_way_ == 0) busy_s_ += seconds_since(busy_since_);
}

double Drive::busy_s() const {
  const std::scoped_lock lock(mutex_);
  return under_way_ > 0 ? busy_s_ + seconds_since(busy_since_) : busy_s_;
}

void Drive::note_buffered(const std::string& path, const std::string& reason) {
  if (noted_.exchange(true)) return;
  log_note(
      "{}: direct I/O does not work on this drive ({}); its files are read through the page cache, "
      "which is slower (first file: {})",
      folder_, reason, path);
}

}  // namespace sluice::io
