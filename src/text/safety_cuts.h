// The cuts that the released tokenizer makes before anything else (SPEC 9.4).
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace sluice::text {

/// Cuts text every 400,000 characters, and between these cuts so that no run of white space or of
/// other characters is longer than 25,000. Token ids depend on these cuts, and they bound the work
/// that one piece can cause.
class SafetyCuts {
 public:
  /// `text` is valid UTF-8 and outlives the object.
  explicit SafetyCuts(std::string_view text) : text_(text) {}

  /// The next slice, never empty; the slices tile the text.
  std::optional<std::string_view> next();

 private:
  std::string_view text_;
  std::size_t at_ = 0;          // bytes
  std::size_t characters_ = 0;  // since the last cut of the first kind
  std::size_t run_ = 0;         // characters of the current run
  bool white_ = false;          // what the current run is made of
};

}  // namespace sluice::text
