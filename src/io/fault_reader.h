// Reads that go wrong or come late on purpose, for tests of everything above a Reader.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "io/reader.h"

namespace sluice::io {

/// Requests are counted from 0 per fault, over those for files whose path ends in `path_ending` and
/// has `path_part` in it.
struct ReadFault {
  enum class Kind {
    error,   ///< the drive failed (EIO)
    shrink,  ///< the file ends at `size`: extents that reach beyond it fail
  };
  Kind kind = Kind::error;
  std::string path_ending = {};
  std::string path_part = {};
  std::uint64_t from = 0;                                           ///< the first that is hit
  std::uint64_t every = 1;                                          ///< then each so-many-th
  std::uint64_t count = std::numeric_limits<std::uint64_t>::max();  ///< so often
  std::uint64_t size = 0;
};

struct ReadFaults {
  std::vector<ReadFault> faults = {};
  /// Each completion is held back for a random time up to this, so that they come out of order.
  std::chrono::microseconds max_delay{0};
  std::uint64_t seed = 1;
  /// When given: files with drives[i] in their path lie on drive i, all others on one more.
  std::vector<std::string> drives = {};
};

/// Passes everything on to `inner`, with faults. What it does not fail arrives unchanged.
std::unique_ptr<Reader> make_fault_reader(std::unique_ptr<Reader> inner, ReadFaults faults);

}  // namespace sluice::io
