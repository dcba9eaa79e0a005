#include "cli/output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace sluice::cli {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{32} << 10;

}  // namespace

Status Output::write(std::string_view bytes) {
  while (!bytes.empty() && !closed_) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // someone made the descriptor non-blocking
      pollfd wait = {descriptor_, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (errno == EPIPE) {
      closed_ = true;
    } else if (errno != EINTR) {
      return fail(ErrorKind::drive, "{}: cannot write: {}", name_,
                  std::generic_category().message(errno));
    }
  }
  return {};
}

Status Output::append(std::string_view bytes) {
  pending_ += bytes;
  return pending_.size() < kPieceBytes ? Status{} : flush();
}

Status Output::flush() {
  Status status = write(pending_);
  pending_.clear();
  return status;
}

bool Output::is_terminal() const { return ::isatty(descriptor_) == 1; }

void write_to_stderr(std::string_view text) {
  static_cast<void>(Output(STDERR_FILENO, "stderr").write(text));
}

}  // namespace sluice::cli
