#include "text/expression.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace sluice::text {
namespace {

// A piece spans at most two runs of 25,000 characters (SafetyCuts), each of which Kimi's expression
// walks over a few times. Whoever reaches these limits has found a bug here, or brought an
// expression that was made to take forever.
constexpr std::uint32_t kMatchLimit = 2'000'000;
constexpr std::uint32_t kHeapLimitKib = 8192;

std::string pcre2_message(int code) {
  PCRE2_UCHAR text[128] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

/// What PCRE2 calls otherwise: white space as Unicode has it, which is not quite its \s, and
/// scripts, which are those of script extensions where their name stands alone.
std::string in_syntax_of_pcre2(std::string_view expression) {
  constexpr std::string_view kScripts[] = {"Han", "Hiragana", "Katakana", "Hangul"};
  std::string out;
  for (std::size_t at = 0; at < expression.size();) {
    const std::string_view rest = expression.substr(at);
    std::string_view taken = rest.substr(0, rest[0] == '\\' ? 2 : 1);
    if (taken == "\\s" || taken == "\\S") {
      out += taken == "\\s" ? "\\p{White_Space}" : "\\P{White_Space}";
    } else {
      out += taken;
      for (const std::string_view script : kScripts) {
        if ((taken == "\\p" || taken == "\\P") && rest.substr(2).starts_with('{') &&
            rest.substr(3).starts_with(script) && rest.substr(3 + script.size()).starts_with('}')) {
          out += "{sc:";
          taken = rest.substr(0, 3);
        }
      }
    }
    at += taken.size();
  }
  return out;
}

/// The first of \w, \W, \b and \B in a pattern, or nothing: libraries differ in what a word is
/// made of (combining marks), and ids would differ with them.
std::string_view word_escape(std::string_view pattern) {
  for (std::size_t at = 0; at + 1 < pattern.size(); ++at) {
    if (pattern[at] != '\\') continue;
    if (std::string_view("wWbB").find(pattern[at + 1]) != std::string_view::npos) {
      return pattern.substr(at, 2);
    }
    ++at;  // what is escaped begins nothing
  }
  return {};
}

}  // namespace

void Expression::Release::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

Result<Expression> Expression::of_ours(const char* pattern) {
  int code = 0;
  PCRE2_SIZE offset = 0;
  const std::uint32_t options =
      PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_NO_START_OPTIMIZE | PCRE2_NEVER_BACKSLASH_C;
  pcre2_code* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                                       options, &code, &offset, nullptr);
  if (compiled == nullptr) {
    return fail(ErrorKind::usage,
                "the PCRE2 library cannot compile the tokenizer's split expression ({} at {}); "
                "Sluice needs PCRE2 10.40 or later with Unicode",
                pcre2_message(code), offset);
  }
  return Expression(compiled, true);
}

Result<Expression> Expression::of_tokenizer(std::string_view pattern, std::string_view file) {
  constexpr std::size_t kMostBytes = 4096;
  if (const std::string_view word = word_escape(pattern); !word.empty()) {
    return fail(ErrorKind::model_files,
                "{}: the split expression '{}' has {}, which Sluice does not support: what a word "
                "is made of differs between libraries",
                file, pattern.substr(0, 200), word);
  }
  const std::string text = in_syntax_of_pcre2(pattern);
  int code = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* compiled = nullptr;
  if (text.size() <= kMostBytes) {
    compiled =
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset, nullptr);
  }
  if (compiled == nullptr) {
    return fail(ErrorKind::model_files,
                "{}: the split expression '{}' cannot be compiled: {} at {}", file,
                pattern.substr(0, 200), text.size() > kMostBytes ? "too long" : pcre2_message(code),
                offset);
  }
  return Expression(compiled, false);
}

Expression::Search::Search()
    : context_(pcre2_match_context_create(nullptr)), data_(pcre2_match_data_create(1, nullptr)) {
  if (context_ == nullptr) return;
  pcre2_set_match_limit(context_, kMatchLimit);
  pcre2_set_heap_limit(context_, kHeapLimitKib);
}

Expression::Search::~Search() {
  pcre2_match_data_free(data_);
  pcre2_match_context_free(context_);
}

Result<std::optional<Expression::Match>> Expression::find(Search& search, std::string_view text,
                                                          std::size_t at) const {
  if (search.context_ == nullptr || search.data_ == nullptr) {
    return fail(ErrorKind::memory, "no memory for splitting a text of {} bytes", text.size());
  }
  // Without the check of UTF-8: it would go over the whole text for every piece.
  const std::uint32_t options = PCRE2_NO_UTF_CHECK | (anchored_ ? 0 : PCRE2_NOTEMPTY);
  const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                at, options, search.data_, search.context_);
  if (found == PCRE2_ERROR_NOMATCH && !anchored_) return std::nullopt;
  const PCRE2_SIZE* const match = pcre2_get_ovector_pointer(search.data_);
  if (found < 0 || match[1] <= at) {
    return fail(ErrorKind::usage, "cannot split the text at byte {} of {} into pieces: {}", at,
                text.size(), found < 0 ? pcre2_message(found) : "empty match");
  }
  return Match{match[0], match[1]};
}

std::uint64_t Expression::memory_bytes() const {
  std::size_t size = 0;
  pcre2_pattern_info(code_.get(), PCRE2_INFO_SIZE, &size);
  return size;
}

std::string matching(std::string_view text) {
  constexpr std::string_view kMeaning = "\\^$.[]|()?*+{}-#/";
  std::string out;
  for (const char c : text) {
    if (kMeaning.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace sluice::text
