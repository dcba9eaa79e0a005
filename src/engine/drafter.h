// Guessing how a text goes on, so that one pass over the weights may give several tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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

  /// Appends to `guess` up to `most` tokens that may follow; none where nothing is known.
  void guess(std::size_t most, std::vector<std::int32_t>& guess) const;

  /// What a text of `context` tokens takes, in bytes.
  static std::uint64_t memory_bytes(std::size_t context) {
    return (context + 1) * sizeof(std::int32_t);
  }

  /// So many of the last tokens at least must have stood together before: one alone is often a
  /// coincidence.
  static constexpr std::size_t kLeastMatch = 2;
  /// Where more match, the place with the most is taken, and the latest of those; more than this
  /// make no difference.
  static constexpr std::size_t kMostMatch = 8;

 private:
  std::size_t matches_before(std::size_t end) const;

  std::vector<std::int32_t> text_;
};

/// How many drafts a pass is worth. That depends on how often they are right, and on what a
/// position more costs: next to nothing where the trunk is read from the drives for each pass,
/// nearly as much as a pass where it is in memory. Both are measured on the way. Another draft
/// pays as long as the chance that it and all before it are right is worth more time than it takes.
///
/// Time is the caller's, so that tests can make it.
class DraftJudge {
 public:
  /// For the next pass, up to `most`. Looks how things are from time to time: after kMostInARow
  /// passes with drafts there is one without, and after kRest without there is one with.
  std::size_t drafts(std::size_t most) const;
  /// After a pass of `seconds`, with what became of its drafts.
  void judge(std::size_t drafts, std::size_t accepted, double seconds);

  static constexpr std::size_t kMostInARow = 16;
  static constexpr std::size_t kRest = 24;

 private:
  /// A mean in which older measurements count less.
  struct Mean {
    double sum = 0;
    double weight = 0;
    void add(double value);
    double value() const { return sum / weight; }
  };

  bool may_compare() const { return plain_passes_ >= plain_s_.size(); }
  double plain_s() const;

  // Of the last passes without drafts. The least of them counts: the first pass of all reads more
  // than others, and any may have been held up.
  std::array<double, 2> plain_s_{};
  std::size_t plain_passes_ = 0;
  // As if it had been seen already that half of the drafts are right, and that one costs a third of
  // a pass: the first guesses of a text are often wrong, and a few of them cost little.
  Mean right_ = {4.0, 8.0};     // of drafts that were looked at: the first wrong one ends that
  Mean cost_ = {4.0 / 3, 4.0};  // of a draft, in passes without
  std::size_t drafted_in_a_row_ = 0;
  std::size_t plain_in_a_row_ = 0;
};

}  // namespace sluice::engine
