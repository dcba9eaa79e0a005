// How fast the kernels of this machine are, beside a loop that only reads the same memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/plan.h"

namespace sluice::engine {

struct KernelSpeed {
  std::string name;           ///< "bf16", "MXFP4"
  std::size_t positions = 1;  ///< that a weight is multiplied with
  int threads = 1;
  double bytes_per_s = 0;  ///< of weights as stored
  double of_read = 0;      ///< share of what the read loop got on as many threads
  double multiplies_per_s = 0;
};

struct KernelReport {
  double read_one = 0;  ///< bytes/s that one thread reads
  double read_all = 0;  ///< bytes/s that all threads read together
  int threads = 1;
  std::vector<KernelSpeed> kernels;
};

/// Measures each kernel at K3's width on one thread and on all, in turn with the read loop, for
/// about `seconds` in all. Takes 128 MiB of memory, more than most caches hold.
Result<KernelReport> measure_kernels(int threads, double seconds);

/// What of it a plan wants; the drive's speed is left open.
MachineSpeeds speeds_of(const KernelReport& report);

}  // namespace sluice::engine
