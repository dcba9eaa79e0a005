#include "text/split.h"

#include <cstddef>
#include <string>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace sluice::text {
namespace {

// A piece spans at most two runs of 25,000 characters (SafetyCuts), each of which the expression
// walks over a few times. Whoever reaches these limits has found a bug here.
constexpr std::uint32_t kMatchLimit = 2'000'000;
constexpr std::uint32_t kHeapLimitKib = 8192;

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

std::string pcre2_message(int code) {
  PCRE2_UCHAR text[128] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// What one call of split() matches with.
struct Matcher {
  Matcher()
      : context(pcre2_match_context_create(nullptr)), data(pcre2_match_data_create(1, nullptr)) {
    if (context == nullptr) return;
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimitKib);
  }
  ~Matcher() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  pcre2_match_context* context;
  pcre2_match_data* data;
};

}  // namespace

void Splitter::Release::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

Result<Splitter> Splitter::create() {
  int code = 0;
  PCRE2_SIZE offset = 0;
  // Anchored: every character is matched by some alternative, so pieces follow without gaps.
  const std::uint32_t options =
      PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_NO_START_OPTIMIZE | PCRE2_NEVER_BACKSLASH_C;
  pcre2_code* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kExpression),
                                       PCRE2_ZERO_TERMINATED, options, &code, &offset, nullptr);
  if (compiled == nullptr) {
    return fail(ErrorKind::usage,
                "the PCRE2 library cannot compile the tokenizer's split expression ({} at {}); "
                "Sluice needs PCRE2 10.40 or later with Unicode",
                pcre2_message(code), offset);
  }
  Splitter splitter;
  splitter.codes_.emplace_back(compiled);
  return splitter;
}

namespace {

/// White space as Unicode has it, which is not quite what PCRE2's \s is.
std::string with_unicode_space(std::string_view expression) {
  std::string out;
  for (std::size_t at = 0; at < expression.size(); ++at) {
    const std::string_view pair = expression.substr(at, 2);
    if (pair == "\\s" || pair == "\\S") {
      out += pair == "\\s" ? "\\p{White_Space}" : "\\P{White_Space}";
      ++at;
    } else if (pair.size() == 2 && pair[0] == '\\') {
      out += pair;
      ++at;
    } else {
      out += expression[at];
    }
  }
  return out;
}

}  // namespace

Result<Splitter> Splitter::create(std::span<const std::string> expressions, std::string_view file) {
  constexpr std::size_t kMostBytes = 4096;
  constexpr std::size_t kMostExpressions = 16;
  Splitter splitter;
  splitter.tiles_ = false;
  if (expressions.size() > kMostExpressions) {
    return fail(ErrorKind::model_files, "{}: {} split expressions, expected at most {}", file,
                expressions.size(), kMostExpressions);
  }
  for (const std::string& expression : expressions) {
    const std::string text = with_unicode_space(expression);
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
                  expression.substr(0, 200),
                  text.size() > kMostBytes ? "too long" : pcre2_message(code), offset);
    }
    splitter.codes_.emplace_back(compiled);
  }
  return splitter;
}

Status Splitter::split(std::string_view text, FunctionRef<void(std::string_view)> piece) const {
  if (codes_.empty()) {
    piece(text);
    return {};
  }
  return split_with(0, text, piece);
}

Status Splitter::split_with(std::size_t index, std::string_view text,
                            FunctionRef<void(std::string_view)> piece) const {
  const Matcher matcher;
  if (matcher.context == nullptr || matcher.data == nullptr) {
    return fail(ErrorKind::memory, "no memory for splitting a text of {} bytes", text.size());
  }
  const auto give = [&](std::string_view part) -> Status {
    if (part.empty()) return {};
    if (index + 1 < codes_.size()) return split_with(index + 1, part, piece);
    piece(part);
    return {};
  };
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t from = 0;  // what lies before it is given out
  for (std::size_t at = 0; at < text.size();) {
    // Without the check: it would go over the whole text for every piece.
    const int found = pcre2_match(codes_[index].get(), subject, text.size(), at,
                                  PCRE2_NO_UTF_CHECK | (tiles_ ? 0 : PCRE2_NOTEMPTY), matcher.data,
                                  matcher.context);
    if (found == PCRE2_ERROR_NOMATCH && !tiles_) break;
    const PCRE2_SIZE* const match = pcre2_get_ovector_pointer(matcher.data);
    const std::size_t end = found < 0 ? at : match[1];
    if (end <= at) {
      return fail(ErrorKind::usage, "cannot split the text at byte {} of {} into pieces: {}", at,
                  text.size(), found < 0 ? pcre2_message(found) : "empty match");
    }
    const std::size_t begin = match[0];
    SLUICE_TRY(give(text.substr(from, begin - from)));
    SLUICE_TRY(give(text.substr(begin, end - begin)));
    from = at = end;
  }
  return give(text.substr(from));
}

std::uint64_t Splitter::memory_bytes() const {
  std::uint64_t sum = 0;
  for (const Code& code : codes_) {
    std::size_t size = 0;
    pcre2_pattern_info(code.get(), PCRE2_INFO_SIZE, &size);
    sum += size;
  }
  return sum;
}

}  // namespace sluice::text
