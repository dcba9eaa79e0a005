// One line on a terminal that says how far the work is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "engine/engine.h"

namespace sluice::cli {

/// On stderr, and only if that is a terminal. Rewritten in place at most ten times a second.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  ~ProgressLine() { erase(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// True if a line shown now would be seen; check it before the work of making one.
  bool is_due() const;
  void show(std::string_view text);
  /// Leaves the terminal as if nothing had been shown.
  void erase();

 private:
  bool enabled_;
  bool visible_ = false;
  Clock::time_point last_;
};

/// How a feed() goes: "prompt: 128 of 512 tokens, layer 17/93, 3210 MB/s, 2 min left".
class FeedProgress {
 public:
  explicit FeedProgress(ProgressLine& line, std::string_view what = "prompt")
      : line_(line), what_(what) {}
  void show(const engine::Progress& progress);

 private:
  ProgressLine& line_;
  std::string_view what_;
  std::uint64_t bytes_before_ = 0;  // read before this feed()
};

/// "12 s", "3 min", "2 h 5 min"
std::string format_seconds(double seconds);

}  // namespace sluice::cli
