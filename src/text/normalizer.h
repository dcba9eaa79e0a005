// What a tokenizer does to a text before it cuts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/expression.h"
#include "text/normal_forms.h"

namespace sluice::text {

/// SentencePiece's sign for a space, U+2581.
inline constexpr std::string_view kSpaceSign = "\xE2\x96\x81";

/// `text` with every `from` made `to`.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

/// Steps, one after the other. Thread-safe when const.
class Normalizer {
 public:
  /// Puts `text` before one that is not empty.
  struct Prepend {
    std::string text;
    bool unless_there = false;   ///< not before a text that begins so
    bool at_begin_only = false;  ///< not behind a special token
  };
  /// Every `from` becomes `to`.
  struct Replace {
    std::string from, to;
  };
  /// Every match becomes `to`.
  struct ReplaceMatches {
    std::shared_ptr<const Expression> from;
    std::string to;
  };
  /// Takes white space away.
  struct Strip {
    bool left, right;
  };
  using Step = std::variant<NormalForm, Prepend, Replace, ReplaceMatches, Strip>;

  void add(Step step) { steps_.push_back(std::move(step)); }
  bool does_nothing() const { return steps_.empty(); }
  /// How many times fewer bytes a text may become at most; nothing where that has no bound.
  std::optional<std::size_t> most_shrinking() const;

  /// A text, or what of one lies between two special tokens. `begins`: it is the begin of the text.
  Result<std::string> apply(std::string_view utf8, bool begins) const;

  std::uint64_t memory_bytes() const;

 private:
  std::vector<Step> steps_;
};

}  // namespace sluice::text
