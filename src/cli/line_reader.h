// Lines from stdin, with Ctrl-C noticed while waiting.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace sluice::cli {

class LineReader {
 public:
  /// The next line without its end; nothing at the end of the input. Fails with
  /// ErrorKind::interrupted on Ctrl-C (see Interrupts::watch()), with ErrorKind::usage on a line
  /// that is longer than any question can be.
  Result<std::optional<std::string>> next();

 private:
  std::string pending_;
  bool at_end_ = false;
};

}  // namespace sluice::cli
