#include "cli/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/size.h"
#include "cli/interrupts.h"

namespace sluice::cli {
namespace {

constexpr std::size_t kLongestLine = std::size_t{16} << 20;

std::string without_return(std::string line) {
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line;
}

}  // namespace

Result<std::optional<std::string>> LineReader::next() {
  std::size_t searched = 0;
  while (true) {
    if (const auto end = pending_.find('\n', searched); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return without_return(std::move(line));
    }
    searched = pending_.size();
    if (at_end_) {
      if (pending_.empty()) return std::nullopt;
      return without_return(std::exchange(pending_, {}));
    }
    if (searched > kLongestLine) {
      return fail(ErrorKind::usage, "a line of more than {} is no question",
                  format_size(kLongestLine));
    }
    std::array<pollfd, 2> waiting = {
        {{STDIN_FILENO, POLLIN, 0}, {Interrupts::descriptor(), POLLIN, 0}}};
    if (::poll(waiting.data(), waiting.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return fail(ErrorKind::usage, "stdin: {}", std::generic_category().message(errno));
    }
    if (waiting[1].revents != 0) return fail(ErrorKind::interrupted, "interrupted");
    std::array<char, 4096> piece;
    const ssize_t count = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (count > 0) {
      pending_.append(piece.data(), static_cast<std::size_t>(count));
    } else if (count == 0) {
      at_end_ = true;
    } else if (errno != EINTR && errno != EAGAIN) {
      return fail(ErrorKind::usage, "stdin: {}", std::generic_category().message(errno));
    }
  }
}

}  // namespace sluice::cli
