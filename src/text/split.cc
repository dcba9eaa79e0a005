#include "text/split.h"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace sluice::text {
namespace {

// Ideographs of Unicode 15 and 15.1, for PCRE2 libraries whose tables end before (10.42: 14.0).
#define SLUICE_NEW_HAN "\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}"
#define SLUICE_LETTER "\\p{L}" SLUICE_NEW_HAN
#define SLUICE_WHITE "\\p{White_Space}"  // not \s: that has U+180E and lacks nothing else
#define SLUICE_HAN "[\\p{sc:Han}" SLUICE_NEW_HAN "]"

// The published expression has two classes of word characters, "upper" (Lu Lt Lm Lo M) and "lower"
// (Ll Lm Lo M), both without Han. What they share is kBoth. Written with possessive groups, which
// need no memory per character, the words are
//
//   upper* lower+   =  UPPER*+ LOWER++                      if Ll follows the run of upper
//                    | (?: [Lu Lt]*+ BOTH++ )++             if not: the run is given back up to its
//                                                           last character of both classes
//   upper+ lower*   =  UPPER++ LOWER*+
//
// A test holds this form and the published one together on random text.
#define SLUICE_BOTH "(?!" SLUICE_HAN ")[\\p{Lm}\\p{Lo}\\p{M}]"
#define SLUICE_UPPER "(?:[\\p{Lu}\\p{Lt}]++|" SLUICE_BOTH ")"
#define SLUICE_LOWER "(?:\\p{Ll}++|" SLUICE_BOTH ")"
#define SLUICE_BEFORE "[^\\r\\n" SLUICE_LETTER "\\p{N}]?"
#define SLUICE_AFTER "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

constexpr char kExpression[] = SLUICE_HAN
    "++"
    "|" SLUICE_BEFORE "(?:" SLUICE_UPPER "*+" SLUICE_LOWER "++|(?:[\\p{Lu}\\p{Lt}]*+(?:" SLUICE_BOTH
    ")++)++)" SLUICE_AFTER "|" SLUICE_BEFORE SLUICE_UPPER "++" SLUICE_LOWER "*+" SLUICE_AFTER
    "|\\p{N}{1,3}+"
    "| ?[^" SLUICE_WHITE SLUICE_LETTER
    "\\p{N}]++[\\r\\n]*+"
    "|" SLUICE_WHITE
    "*[\\r\\n]++"
    "|" SLUICE_WHITE
    "+(?!\\P{White_Space})"
    "|" SLUICE_WHITE "++";

/// What a cut does with matches and with what lies between them, as they come.
class Joiner {
 public:
  Joiner(const Cut& cut, FunctionRef<Status(std::string_view)> give) : cut_(cut), give_(give) {}

  /// The next part of the text, right behind the one before.
  Status take(std::string_view part, bool matches) {
    if (part.empty()) return {};
    matches = matches != cut_.inverted;
    using Matches = Cut::Matches;
    switch (cut_.matches) {
      case Matches::isolated:
        return give_(part);
      case Matches::removed:
        return matches ? Status() : give_(part);
      case Matches::contiguous:
        return held_matches_ == matches ? extend(part) : hold(part, matches);
      case Matches::merged_with_previous:
        if (!matches || held_matches_) return hold(part, matches);
        held_matches_ = true;  // the next match begins a piece
        return extend(part);
      case Matches::merged_with_next:
        if (matches || !held_matches_ || held_.empty()) return hold(part, matches);
        SLUICE_TRY(extend(part));
        return flush();
    }
    return {};
  }
  Status flush() {
    const std::string_view part = held_;
    held_ = {};
    return part.empty() ? Status() : give_(part);
  }

 private:
  Status extend(std::string_view part) {
    held_ = held_.empty() ? part : std::string_view(held_.data(), held_.size() + part.size());
    return {};
  }
  Status hold(std::string_view part, bool matches) {
    SLUICE_TRY(flush());
    held_ = part;
    held_matches_ = matches;
    return {};
  }

  const Cut& cut_;
  FunctionRef<Status(std::string_view)> give_;
  std::string_view held_;
  bool held_matches_ = false;
};

}  // namespace

Result<Splitter> Splitter::create() {
  SLUICE_ASSIGN(Expression expression, Expression::of_ours(kExpression));
  Splitter splitter;
  splitter.steps_.push_back({Cut{}, std::move(expression)});
  return splitter;
}

Result<Splitter> Splitter::create(std::span<const Cut> cuts, std::string_view file) {
  constexpr std::size_t kMostExpressions = 16;
  if (cuts.size() > kMostExpressions) {
    return fail(ErrorKind::model_files, "{}: {} split expressions, expected at most {}", file,
                cuts.size(), kMostExpressions);
  }
  Splitter splitter;
  for (const Cut& cut : cuts) {
    SLUICE_ASSIGN(Expression expression, Expression::of_tokenizer(cut.expression, file));
    splitter.steps_.push_back({cut, std::move(expression)});
  }
  return splitter;
}

Status Splitter::split(std::string_view text, FunctionRef<void(std::string_view)> piece) const {
  return split_with(0, text, piece);
}

Status Splitter::split_with(std::size_t index, std::string_view text,
                            FunctionRef<void(std::string_view)> piece) const {
  if (index == steps_.size()) {
    if (!text.empty()) piece(text);
    return {};
  }
  const auto give = [&](std::string_view part) { return split_with(index + 1, part, piece); };
  const Step& step = steps_[index];
  Expression::Search search;
  Joiner joiner(step.cut, give);
  std::size_t from = 0;  // what lies before it is given out
  while (from < text.size()) {
    SLUICE_ASSIGN(const auto match, step.expression.find(search, text, from));
    if (!match) break;
    SLUICE_TRY(joiner.take(text.substr(from, match->begin - from), false));
    SLUICE_TRY(joiner.take(text.substr(match->begin, match->end - match->begin), true));
    from = match->end;
  }
  SLUICE_TRY(joiner.take(text.substr(from), false));
  return joiner.flush();
}

bool Splitter::may_remove() const {
  return std::ranges::any_of(
      steps_, [](const Step& step) { return step.cut.matches == Cut::Matches::removed; });
}

std::uint64_t Splitter::memory_bytes() const {
  std::uint64_t sum = 0;
  for (const Step& step : steps_) sum += step.expression.memory_bytes();
  return sum;
}

}  // namespace sluice::text
