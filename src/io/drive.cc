#include "io/drive.h"

#include <optional>
#include <utility>

#include "base/log.h"

namespace sluice::io {

void Drive::begin_read(const std::filesystem::path& file) {
  const std::scoped_lock lock(mutex_);
  asked_ = &file;
  if (under_way_++ == 0) busy_since_ = progress_ = Clock::now();
}

std::uint64_t Drive::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& bytes : bytes_) sum += bytes.load(std::memory_order_relaxed);
  return sum;
}

void Drive::end_read(std::uint64_t bytes, Priority priority) {
  bytes_[static_cast<std::size_t>(priority)].fetch_add(bytes, std::memory_order_relaxed);
  const Clock::time_point now = Clock::now();
  std::optional<double> stall_s;
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(stalled_, false)) stall_s = seconds_between(progress_, now);
    progress_ = now;
    if (--under_way_ == 0) busy_s_ += seconds_between(busy_since_, now);
  }
  if (stall_s) log_warning("{}: after {:.0f} s a read came back; going on", folder_, *stall_s);
}

void Drive::report_stall(Clock::duration limit) {
  std::string file;
  double stall_s = 0;
  {
    const std::scoped_lock lock(mutex_);
    const Clock::time_point now = Clock::now();
    if (under_way_ == 0 || stalled_ || now - progress_ < limit) return;
    stalled_ = true;
    stall_s = seconds_between(progress_, now);
    file = asked_->string();
  }
  log_warning(
      "{}: no read has come back from this drive for {:.0f} s; waiting for it (the last one asked "
      "for is in {})",
      folder_, stall_s, file);
}

double Drive::busy_s() const {
  const std::scoped_lock lock(mutex_);
  return under_way_ > 0 ? busy_s_ + seconds_since(busy_since_) : busy_s_;
}

void Drive::note_buffered(const std::string& path, const std::string& reason) {
  if (noted_.exchange(true)) return;
  log_note_once(fmt::format(
      "{}: direct I/O does not work on this drive ({}); its files are read through the page cache, "
      "which is slower (first file: {})",
      folder_, reason, path));
}

}  // namespace sluice::io
