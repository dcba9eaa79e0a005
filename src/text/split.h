// The split expression of Kimi's tokenizers (SPEC 9.3).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

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

  /// Calls `piece` for the pieces of `text`, in order; together they are the text.
  /// `text` is valid UTF-8, and should come from SafetyCuts: its runs bound the work per piece.
  /// Fails only if PCRE2 reaches one of the limits set here.
  Status split(std::string_view text, FunctionRef<void(std::string_view)> piece) const;

  std::uint64_t memory_bytes() const;

 private:
  struct Release {
    void operator()(pcre2_real_code_8* code) const;
  };
  explicit Splitter(pcre2_real_code_8* code) : code_(code) {}

  std::unique_ptr<pcre2_real_code_8, Release> code_;
};

}  // namespace sluice::text
