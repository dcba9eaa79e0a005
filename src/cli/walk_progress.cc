#include "cli/walk_progress.h"

#include <algorithm>
#include <string>

#include "base/size.h"

namespace sluice::cli {

void WalkProgress::show(std::string_view what, std::uint64_t done, std::uint64_t before,
                        std::uint64_t total) {
  constexpr std::size_t kBar = 20;
  if (what != what_) {
    what_ = what;
    start_ = Clock::now();
  }
  if (!line_.is_due() || total == 0) return;
  const double share = static_cast<double>(std::min(done, total)) / static_cast<double>(total);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kBar));
  std::string text = fmt::format("{} [{}{}] {:.0f} %, {} of {}", what, std::string(filled, '#'),
                                 std::string(kBar - filled, '-'), 100 * share, format_size(done),
                                 format_size(total));
  const double seconds = seconds_since(start_);
  if (done > before && seconds > 0) {
    const double speed = static_cast<double>(done - before) / seconds;
    text += fmt::format(", {:.0f} MB/s, {} left", speed / 1e6,
                        format_seconds(static_cast<double>(total - done) / speed));
  }
  line_.show(text);
}

}  // namespace sluice::cli
