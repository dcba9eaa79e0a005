#include "text/stop.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace sluice::text {

Result<StopMatcher> StopMatcher::create(std::vector<std::string> stops) {
  StopMatcher matcher;
  for (std::string& text : stops) {
    if (text.empty()) return fail(ErrorKind::usage, "a stop text is empty");
    if (first_invalid_utf8(text)) return fail(ErrorKind::usage, "a stop text is not UTF-8");
    Stop stop{std::move(text), {0}, 0};
    stop.border.reserve(stop.text.size());
    for (std::size_t i = 1; i < stop.text.size(); ++i) {
      std::size_t border = stop.border[i - 1];
      while (border > 0 && stop.text[border] != stop.text[i]) border = stop.border[border - 1];
      stop.border.push_back(stop.text[border] == stop.text[i] ? border + 1 : 0);
    }
    matcher.stops_.push_back(std::move(stop));
  }
  return matcher;
}

void StopMatcher::advance(Stop& stop, char byte) {
  while (stop.matched > 0 && stop.text[stop.matched] != byte) {
    stop.matched = stop.border[stop.matched - 1];
  }
  if (stop.text[stop.matched] == byte) ++stop.matched;
}

StopMatcher::Piece StopMatcher::push(std::string_view text) {
  if (stopped_) return {{}, true};
  if (stops_.empty()) return {std::string(text), false};
  for (const char byte : text) {
    held_ += byte;
    std::size_t complete = 0;
    for (Stop& stop : stops_) {
      advance(stop, byte);
      if (stop.matched != stop.text.size() || stop.matched <= complete) continue;
      complete = stop.matched;
      stopped_by_ = stop.text;
    }
    if (complete > 0) {
      stopped_ = true;
      held_.resize(held_.size() - complete);
      return {std::exchange(held_, {}), true};
    }
  }
  std::size_t keep = 0;
  for (const Stop& stop : stops_) keep = std::max(keep, stop.matched);
  Piece piece{held_.substr(0, held_.size() - keep), false};
  held_.erase(0, held_.size() - keep);
  return piece;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

}  // namespace sluice::text
