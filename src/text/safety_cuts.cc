#include "text/safety_cuts.h"

#include "text/utf8.h"

namespace sluice::text {
namespace {

constexpr std::size_t kSliceCharacters = 400'000;
constexpr std::size_t kRunCharacters = 25'000;

// The release counts runs with Python's str.isspace, which knows four separators more than the
// split expression does.
bool is_run_space(char32_t code) { return is_white_space(code) || (code >= 0x1C && code <= 0x1F); }

}  // namespace

std::optional<std::string_view> SafetyCuts::next() {
  if (at_ == text_.size()) return std::nullopt;
  const std::size_t begin = at_;
  while (at_ < text_.size()) {
    const Utf8Character character = read_utf8(text_, at_);
    const bool white = is_run_space(character.code);
    if (characters_ == kSliceCharacters) {
      characters_ = 0;
      run_ = 0;
      if (at_ > begin) break;
    }
    // A run goes on behind a cut of its own making: the character that caused the cut is its first.
    const bool same = run_ > 0 && white == white_;
    if (same && run_ == kRunCharacters) {
      run_ = 0;
      break;
    }
    run_ = same ? run_ + 1 : 1;
    white_ = white;
    ++characters_;
    at_ += character.size;
  }
  return text_.substr(begin, at_ - begin);
}

}  // namespace sluice::text
