// Ctrl-C, and SIGTERM for what a supervisor ends: what it ends, and when.
#pragma once

#include "base/cancellation.h"
#include "base/result.h"

namespace sluice::cli {

/// Takes SIGINT for the life of the process.
class Interrupts {
 public:
  /// From now on a signal ends the process at once, with exit code 130.
  static Status install();

  /// From now on SIGTERM is like SIGINT, but for the exit code 143. It is not by default: who ends
  /// a command with it wants it to end, while a server is always ended so by systemd and docker.
  static void take_termination();

  /// From now on, and again after each call, the first signal asks the work to stop through
  /// cancellation(), and only the second ends the process.
  static void watch();

  static const Cancellation& cancellation();
  /// Readable from that first signal on; to wait for it beside other descriptors.
  static int descriptor();
};

}  // namespace sluice::cli
