#include "engine/drafter.h"

#include <algorithm>

namespace sluice::engine {
namespace {

// What is left of older passes' weight after each new one.
constexpr double kKept = 0.8;

}  // namespace

/// How many of the tokens before `end` are the last ones of the text.
std::size_t Drafter::matches_before(std::size_t end) const {
  std::size_t count = 0;
  while (count < std::min(end, kMostMatch) &&
         text_[end - 1 - count] == text_[text_.size() - 1 - count]) {
    ++count;
  }
  return count;
}

std::span<const std::int32_t> Drafter::guess(std::size_t most) const {
  std::size_t best = 0;
  std::size_t longest = kLeastMatch - 1;
  for (std::size_t end = text_.size(); end-- > kLeastMatch && longest < kMostMatch;) {
    const std::size_t count = matches_before(end);
    if (count <= longest) continue;
    longest = count;
    best = end;
  }
  if (best == 0) return {};
  return std::span(text_).subspan(best, std::min(most, text_.size() - best));
}

void DraftJudge::judge(std::size_t drafts, std::size_t accepted, double seconds) {
  if (drafts == 0) {
    plain_ = {plain_.seconds * kKept + seconds, plain_.tokens * kKept + 1};
    if (passes_to_rest_ > 0) --passes_to_rest_;
    return;
  }
  drafted_.seconds += seconds;
  drafted_.tokens += static_cast<double>(1 + accepted);
  if (++drafted_passes_ < kTrial) return;
  if (plain_.tokens == 0) {
    passes_to_rest_ = kComparison;
  } else if (drafted_.s_per_token() >= plain_.s_per_token()) {
    passes_to_rest_ = kRest;
  }
  drafted_ = {};
  drafted_passes_ = 0;
}

}  // namespace sluice::engine
