// Cutting text into pieces: by Kimi's split expression (SPEC 9.3), or by those of other tokenizers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "text/expression.h"

namespace sluice::text {

/// One step of cutting, as tokenizer.json describes them.
struct Cut {
  /// What becomes of the matches of the expression. What lies between them is a piece each.
  enum class Matches {
    isolated,              ///< a piece each
    removed,               ///< left out
    merged_with_previous,  ///< the end of the piece before
    merged_with_next,      ///< the begin of the piece behind
    contiguous,            ///< matches that follow each other are one piece
  };
  std::string expression;
  Matches matches = Matches::isolated;
  bool inverted = false;  ///< matches are what lies between, and the other way round
};

/// Cuts text into the pieces that are byte-pair encoded one by one. Thread-safe when const.
/// Ideographs are those of Unicode 15.1. Other characters that are newer than the tables of the
/// PCRE2 library (10.42: Unicode 14) are no letters, marks or numbers yet: Kawi, Garay and the
/// like.
class Splitter {
 public:
  /// Kimi's. Fails with ErrorKind::usage if the PCRE2 library at hand cannot compile the expression
  /// (it must be 10.40 or later, built with Unicode).
  static Result<Splitter> create();

  /// Each cuts the pieces of the one before it. `file` is for messages. ErrorKind::model_files if
  /// an expression cannot be compiled.
  static Result<Splitter> create(std::span<const Cut> cuts, std::string_view file);

  /// Calls `piece` for the pieces of `text`, in order, none of them empty; together they are the
  /// text, without what is cut out of it.
  /// `text` is valid UTF-8, and should come from SafetyCuts: its runs bound the work per piece.
  /// Fails only if PCRE2 reaches one of the limits of Expression.
  Status split(std::string_view text, FunctionRef<void(std::string_view)> piece) const;

  /// Whether pieces may be less than the text.
  bool may_remove() const;

  std::uint64_t memory_bytes() const;

 private:
  struct Step {
    Cut cut;
    Expression expression;
  };
  Splitter() = default;
  Status split_with(std::size_t index, std::string_view text,
                    FunctionRef<void(std::string_view)> piece) const;

  std::vector<Step> steps_;
};

}  // namespace sluice::text
