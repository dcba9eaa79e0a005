// What an answer may look like: a grammar over bytes and special tokens. It knows recursion (JSON
// in JSON), counts and ranges; GrammarState follows a text through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::text {

/// A byte, or kMarker + the place of a special token in Grammar::markers.
using Symbol = std::uint16_t;
inline constexpr Symbol kMarker = 256;
using Symbols = std::vector<Symbol>;
Symbols symbols_of(std::string_view bytes);

/// Deepest nesting of arrays and objects in one text.
inline constexpr std::uint32_t kGrammarDepth = 64;

using GrammarId = std::uint32_t;

/// Whole numbers lowest .. highest in units of 10^-digits, written with at most that many digits
/// behind the point. `exponent`: as large as they come, with exponents.
struct NumberRange {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  std::uint32_t digits = 0;
  bool exponent = false;
};

struct GrammarNode {
  enum class Kind : std::uint8_t {
    choice,      ///< any of `children`
    sequence,    ///< all of `children` in order
    repeat,      ///< children[0], then children[1] again and again: `least` to `most` in all
    literal,     ///< one of `spellings`
    string,      ///< a JSON string of `least` to `most` characters that is none of `spellings`
    number,      ///< a JSON number in `range`
    whitespace,  ///< nothing, a space, or a new line and up to `most` spaces and tabs
    text,        ///< any bytes; with limits, `least` to `most` characters
  };
  static constexpr std::uint32_t kNoLimit = UINT32_MAX;

  Kind kind = Kind::choice;
  std::vector<GrammarId> children = {};
  std::vector<Symbols> spellings = {};  ///< sorted
  std::uint32_t least = 0;
  std::uint32_t most = kNoLimit;
  NumberRange range = {};
  bool nests = false;        ///< counts for kGrammarDepth
  std::uint32_t height = 0;  ///< levels of nesting that it needs at least; set by close()
};

/// Nodes are added first, then close() is called once. Immutable from then on, so that any number
/// of threads may use one.
class Grammar {
 public:
  static constexpr std::size_t kMostNodes = 20'000;
  /// Choices directly within each other.
  static constexpr std::size_t kMostChoices = 600;
  /// Ways to go on from one choice, with those of the choices directly within it.
  static constexpr std::size_t kMostWays = 1024;

  GrammarId add(GrammarNode node);
  GrammarId literal(std::string_view bytes);
  GrammarId literal(Symbols symbols);
  GrammarId sequence(std::vector<GrammarId> children);
  GrammarId choice(std::vector<GrammarId> children);
  /// For references to what is not known yet.
  void set_children(GrammarId id, std::vector<GrammarId> children);
  /// The symbol of a special token.
  Symbol marker(std::int32_t token);

  /// Why a grammar cannot be followed.
  enum class Fault : std::uint8_t {
    none,
    nothing_fits,    ///< no text is in it, or none that is nested less deep than kGrammarDepth
    left_recursive,  ///< something is itself, with nothing before it
    too_large,       ///< more than kMostNodes or kMostChoices
    too_many_ways,   ///< more than kMostWays
  };
  /// Makes `root` what a text has to be. The time that it takes is bounded, whatever the grammar.
  Fault close(GrammarId root);

  const GrammarNode& operator[](GrammarId id) const { return nodes_[id]; }
  GrammarId root() const { return root_; }
  const std::vector<std::int32_t>& markers() const { return markers_; }
  std::size_t size() const { return nodes_.size(); }
  std::uint64_t memory_bytes() const;

 private:
  std::uint32_t height_of(const GrammarNode& node) const;
  void find_heights();
  Fault check_choices();
  Fault merge_choice(GrammarId id, std::vector<std::size_t>& ways, std::size_t& listed);

  std::vector<GrammarNode> nodes_;
  std::vector<std::int32_t> markers_;
  GrammarId root_ = 0;
};

}  // namespace sluice::text
