#include "engine/drafter.h"

#include <algorithm>

namespace sluice::engine {
namespace {

// What is left of older measurements' weight after each new one.
constexpr double kKept = 0.9;

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
  std::size_t best = 0;
  std::size_t longest = kLeastMatch - 1;
  for (std::size_t end = text_.size(); end-- > kLeastMatch && longest < kMostMatch;) {
    const std::size_t count = matches_before(end);
    if (count <= longest) continue;
    longest = count;
    best = end;
  }
  if (best == 0) return;
  // Where the text ends the guess goes on with itself: what has come round twice goes on to.
  const std::size_t period = text_.size() - best;
  for (std::size_t i = 0; i < most; ++i) guess.push_back(text_[best + i % period]);
}

void DraftJudge::Mean::add(double value) {
  sum = sum * kKept + value;
  weight = weight * kKept + 1;
}

/// That a draft is right if all before it are.
double DraftJudge::chance() const { return right_.value(); }

/// Of a draft, as a share of a pass without. A position that gave a token for less than nothing
/// has only met a faster drive.
double DraftJudge::cost() const { return std::max(cost_.value(), 0.0); }

std::size_t DraftJudge::drafts(std::size_t most) const {
  if (plain_s_.weight == 0 || drafted_in_a_row_ >= kMostInARow) return 0;
  std::size_t worth = 0;
  for (double all_right = chance(); worth < most && all_right > cost(); all_right *= chance()) {
    ++worth;
  }
  const bool looks = worth == 0 && plain_in_a_row_ >= kRest;
  return looks ? std::min<std::size_t>(most, 1) : worth;
}

void DraftJudge::judge(std::size_t drafts, std::size_t accepted, double seconds) {
  if (drafts == 0) {
    plain_s_.add(seconds);
    drafted_in_a_row_ = 0;
    ++plain_in_a_row_;
    return;
  }
  ++drafted_in_a_row_;
  plain_in_a_row_ = 0;
  const auto count = static_cast<double>(drafts);
  if (plain_s_.weight > 0 && plain_s_.value() > 0) {
    cost_.add((seconds / plain_s_.value() - 1) / count);
  }
  for (std::size_t draft = 0; draft < accepted; ++draft) right_.add(1);
  if (accepted < drafts) right_.add(0);
}

}  // namespace sluice::engine
