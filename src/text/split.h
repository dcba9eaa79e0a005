// Cutting text into pieces: by Kimi's split expression (SPEC 9.3), or by those of other tokenizers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"

struct pcre2_real_code_8;  // PCRE2's name for a compiled expression

namespace sluice::text {

/// Cuts text into the pieces that are byte-pair encoded one by one. Thread-safe when const.
/// Ideographs are those of Unicode 15.1. Other characters that are newer than the tables of the
/// PCRE2 library (10.42: Unicode 14) are no letters, marks or numbers yet: Kawi, Garay and the
/// like.
class Splitter {
 public:
  /// Fails with ErrorKind::usage if the PCRE2 library at hand cannot compile the expression
  /// (it must be 10.40 or later, built with Unicode).
  static Result<Splitter> create();

  /// Cuts by one expression after the other: each cuts the pieces of the one before it into its
  /// matches and what lies between them. Expressions are in the syntax that tokenizer.json has;
  /// `file` is for messages. ErrorKind::model_files if one cannot be compiled.
  static Result<Splitter> create(std::span<const std::string> expressions, std::string_view file);

  /// Calls `piece` for the pieces of `text`, in order; together they are the text.
  /// `text` is valid UTF-8, and should come from SafetyCuts: its runs bound the work per piece.
  /// Fails only if PCRE2 reaches one of the limits set here.
  Status split(std::string_view text, FunctionRef<void(std::string_view)> piece) const;

  std::uint64_t memory_bytes() const;

 private:
  struct Release {
    void operator()(pcre2_real_code_8* code) const;
  };
  using Code = std::unique_ptr<pcre2_real_code_8, Release>;
  Splitter() = default;
  Status split_with(std::size_t index, std::string_view text,
                    FunctionRef<void(std::string_view)> piece) const;

  std::vector<Code> codes_;
  bool tiles_ = true;  // matches follow each other without gaps
};

}  // namespace sluice::text
