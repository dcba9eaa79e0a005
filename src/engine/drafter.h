// Guessing how a text goes on, so that one pass over the weights may give several tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::engine {

/// Takes a text to go on as it did the last time that its last tokens stood together in it: names,
/// quotations, code and tables repeat. Needs no other model, and what it guesses changes no result,
/// only how many passes it takes.
class Drafter {
 public:
  /// For a text that fills at most `context` positions: its last token has none yet.
  explicit Drafter(std::size_t context) { text_.reserve(context + 1); }

  /// The text so far, all of its tokens in order.
  void push(std::int32_t id) { text_.push_back(id); }

  /// Up to `most` tokens that may follow; fewer or none where nothing is known. Valid until the
  /// next push().
  std::span<const std::int32_t> guess(std::size_t most) const;

  /// What a text of `context` tokens takes, in bytes.
  static std::uint64_t memory_bytes(std::size_t context) {
    return (context + 1) * sizeof(std::int32_t);
  }

  /// So many of the last tokens at least must have stood together before: a pair alone is often a
  /// coincidence of common words.
  static constexpr std::size_t kLeastMatch = 2;
  /// Where more match, the place with the most is taken, and the latest of those; more than this
  /// make no difference.
  static constexpr std::size_t kMostMatch = 8;

 private:
  std::size_t matches_before(std::size_t end) const;

  std::vector<std::int32_t> text_;
};

/// Whether passes with drafts give tokens faster than passes without. That depends on how often
/// drafts are right, and on what a position more costs: next to nothing where the trunk is read
/// from the drives for each pass, nearly as much as a pass where it is in memory.
class DraftJudge {
 public:
  /// Whether the next pass may have drafts.
  bool may_draft() const { return passes_to_rest_ == 0; }
  /// After a pass of `seconds`, with what became of its drafts.
  void judge(std::size_t drafts, std::size_t accepted, double seconds);

  static constexpr std::size_t kTrial = 8;  ///< passes with drafts that are judged together
  static constexpr std::size_t kRest = 64;  ///< passes without, where drafts did not pay
  /// Passes without where none has been yet, to compare with.
  static constexpr std::size_t kComparison = 2;

 private:
  // Of passes, and of the tokens that they gave; of those without drafts the last ones count most.
  struct Sum {
    double seconds = 0;
    double tokens = 0;
    double s_per_token() const { return seconds / tokens; }
  };
  Sum plain_;
  Sum drafted_;
  std::size_t drafted_passes_ = 0;
  std::size_t passes_to_rest_ = 0;
};

}  // namespace sluice::engine
