#include "engine/drafter.h"

#include <algorithm>

namespace sluice::engine {
namespace {

// What is left of older measurements' weight after each new one.
constexpr double kKept = 0.9;
// Of a draft, in passes without: it computes what a pass does, and the pass's overhead is there.
constexpr double kMostCost = 1.5;

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

void Drafter::guess(std::size_t most, std::vector<std::int32_t>& guess) const {
  if (most == 0) return;
  std::size_t best = 0;
  std::size_t longest = kLeastMatch - 1;
  for (std::size_t end = text_.size(); end-- > kLeastMatch && longest < kMostMatch;) {
    const std::size_t count = matches_before(end);
    if (count <= longest) continue;
    longest = count;
    best = end;
  }
  if (best == 0) return;
  // Where the text ends the guess goes on with itself: what came round comes round again.
  const std::size_t period = text_.size() - best;
  for (std::size_t i = 0; i < most; ++i) guess.push_back(text_[best + i % period]);
}

void DraftJudge::Mean::add(double value) {
  sum = sum * kKept + value;
  weight = weight * kKept + 1;
}

double DraftJudge::plain_s() const { return *std::ranges::min_element(plain_s_); }

std::size_t DraftJudge::drafts(std::size_t most) const {
  if (!may_compare() || drafted_in_a_row_ >= kMostInARow) return 0;
  const double chance = right_.value();
  std::size_t worth = 0;
  for (double all_right = chance; worth < most && all_right > cost_.value(); all_right *= chance) {
    ++worth;
  }
  const bool looks = worth == 0 && plain_in_a_row_ >= kRest;
  return looks ? std::min<std::size_t>(most, 1) : worth;
}

void DraftJudge::judge(std::size_t drafts, std::size_t accepted, double seconds) {
  if (drafts == 0) {
    plain_s_[plain_passes_++ % plain_s_.size()] = seconds;
    drafted_in_a_row_ = 0;
    ++plain_in_a_row_;
    return;
  }
  ++drafted_in_a_row_;
  plain_in_a_row_ = 0;
  if (may_compare() && plain_s() > 0) {
    // A pass that was held up, or met a faster drive, tells less than it seems to.
    const double cost = (seconds / plain_s() - 1) / static_cast<double>(drafts);
    cost_.add(std::clamp(cost, 0.0, kMostCost));
  }
  for (std::size_t draft = 0; draft < accepted; ++draft) right_.add(1);
  if (accepted < drafts) right_.add(0);
}

}  // namespace sluice::engine
