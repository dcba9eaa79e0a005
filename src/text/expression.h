// Regular expressions as tokenizers have them, by PCRE2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

struct pcre2_real_code_8;           // PCRE2's names for a compiled expression,
struct pcre2_real_match_context_8;  // for the limits of a search,
struct pcre2_real_match_data_8;     // and for what it found

namespace sluice::text {

/// A compiled expression. Thread-safe: whoever searches brings a Search of his own.
class Expression {
 public:
  struct Match {
    std::size_t begin, end;
  };

  /// An expression in the syntax of tokenizer.json (Oniguruma's, as far as tokenizers use it).
  /// `file` is for messages. ErrorKind::model_files if it cannot be compiled.
  static Result<Expression> of_tokenizer(std::string_view pattern, std::string_view file);
  /// One of our own, in PCRE2's syntax, that matches at every place: a search only looks where it
  /// begins. ErrorKind::usage if the PCRE2 library at hand cannot compile it (it must be 10.40 or
  /// later, built with Unicode).
  static Result<Expression> of_ours(const char* pattern);

  /// Memory and limits of searches; must not outlive what it is used with.
  class Search {
   public:
    Search();
    ~Search();
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;

   private:
    friend class Expression;
    pcre2_real_match_context_8* context_;
    pcre2_real_match_data_8* data_;
  };

  /// The first match in `text`, which is valid UTF-8, from `at` on; never an empty one.
  /// Fails only if PCRE2 reaches one of its limits, or has no memory.
  Result<std::optional<Match>> find(Search& search, std::string_view text, std::size_t at) const;

  std::uint64_t memory_bytes() const;

 private:
  struct Release {
    void operator()(pcre2_real_code_8* code) const;
  };
  Expression(pcre2_real_code_8* code, bool anchored) : code_(code), anchored_(anchored) {}

  std::unique_ptr<pcre2_real_code_8, Release> code_;
  bool anchored_;
};

/// An expression of a tokenizer that matches this text and no other.
std::string matching(std::string_view text);

}  // namespace sluice::text
