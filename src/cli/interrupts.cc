#include "cli/interrupts.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>

namespace sluice::cli {
namespace {

// A signal handler can reach nothing but globals.
Cancellation g_cancellation;
std::atomic<int> g_patience{0};  // signals that do not end the process yet
std::array<int, 2> g_pipe{-1, -1};

void on_signal(int signal) {
  if (g_patience.fetch_sub(1) <= 0) _exit(128 + signal);  // 130 for SIGINT
  g_cancellation.request();
  const int saved = errno;
  const char byte = 0;
  static_cast<void>(!::write(g_pipe[1], &byte, 1));
  errno = saved;
}

void take(int signal) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // whoever must wake up waits for descriptor()
  sigaction(signal, &action, nullptr);
}

}  // namespace

Status Interrupts::install() {
  if (::pipe2(g_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    return fail(ErrorKind::usage, "no pipe for signals: {}",
                std::generic_category().message(errno));
  }
  take(SIGINT);
  return {};
}

void Interrupts::take_termination() { take(SIGTERM); }

void Interrupts::watch() {
  std::array<char, 16> dropped;
  while (::read(g_pipe[0], dropped.data(), dropped.size()) > 0) continue;
  g_cancellation.reset();
  g_patience.store(1);
}

const Cancellation& Interrupts::cancellation() { return g_cancellation; }

int Interrupts::descriptor() { return g_pipe[0]; }

}  // namespace sluice::cli
