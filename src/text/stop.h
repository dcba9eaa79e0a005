// Stop strings: where an answer ends because of its text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::text {

/// Watches a stream of text for stop strings, however the text is cut into pieces.
/// The stop string that is complete first ends the text, before its first byte; of several that
/// are complete at the same byte the longest counts. Only what may become a stop string is held
/// back.
class StopMatcher {
 public:
  struct Piece {
    std::string text;      ///< to hand on
    bool stopped = false;  ///< a stop string came; nothing follows
  };

  /// Fails with ErrorKind::usage if a stop string is empty or not UTF-8.
  static Result<StopMatcher> create(std::vector<std::string> stops);

  /// Takes the next piece of text. After a stop, text is dropped.
  Piece push(std::string_view text);
  /// What is held back, at the end of the text. The matcher stays as it is after a stop.
  std::string finish();

  /// The stop string that came; empty if none did.
  const std::string& stopped_by() const { return stopped_by_; }

 private:
  struct Stop {
    std::string text;
    std::vector<std::size_t> border;  // [i]: longest proper prefix that ends text[0, i], as in KMP
    std::size_t matched = 0;          // bytes of `text` that the stream ends with now
  };
  static void advance(Stop& stop, char byte);

  std::vector<Stop> stops_;
  std::string held_;  // the longest end of the stream that starts a stop string
  bool stopped_ = false;
  std::string stopped_by_;
};

}  // namespace sluice::text
