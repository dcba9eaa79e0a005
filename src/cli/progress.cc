#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cli/output.h"

namespace sluice::cli {
namespace {

constexpr std::chrono::milliseconds kInterval{100};

std::size_t terminal_columns() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : 80;
}

}  // namespace

ProgressLine::ProgressLine(bool quiet) : enabled_(!quiet && ::isatty(STDERR_FILENO) == 1) {}

bool ProgressLine::is_due() const {
  return enabled_ && (!visible_ || Clock::now() - last_ >= kInterval);
}

void ProgressLine::show(std::string_view text) {
  if (!is_due()) return;
  write_to_stderr(fmt::format("\r{}\033[K", text.substr(0, terminal_columns() - 1)));
  visible_ = true;
  last_ = Clock::now();
}

void ProgressLine::erase() {
  if (visible_) write_to_stderr("\r\033[K");
  visible_ = false;
}

void FeedProgress::show(const engine::Progress& now) {
  const bool is_first = now.tokens_done == 0 && now.layer == 0;
  if (is_first) bytes_before_ = now.bytes_read;
  if (!line_.is_due()) return;
  const double chunk_share =
      static_cast<double>(now.layer) / static_cast<double>(std::max<std::size_t>(1, now.layers));
  const double share =
      (static_cast<double>(now.tokens_done) + static_cast<double>(now.chunk_tokens) * chunk_share) /
      static_cast<double>(std::max<std::size_t>(1, now.tokens));
  std::string text = fmt::format("{}: {} of {} tokens, layer {}/{}", what_, now.tokens_done,
                                 now.tokens, now.layer + 1, now.layers);
  if (now.seconds > 0 && share > 0) {
    const auto bytes = static_cast<double>(now.bytes_read - bytes_before_);
    text += fmt::format(", {:.0f} MB/s, {} left", bytes / now.seconds / 1e6,
                        format_seconds(now.seconds * (1 - share) / share));
  }
  line_.show(text);
}

std::string format_seconds(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::ceil(std::clamp(seconds, 0.0, 1e9)));
  if (whole < 120) return fmt::format("{} s", whole);
  const std::uint64_t minutes = (whole + 59) / 60;
  if (minutes < 120) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

}  // namespace sluice::cli
