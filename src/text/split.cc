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
  return Splitter(compiled);
}

Status Splitter::split(std::string_view text, FunctionRef<void(std::string_view)> piece) const {
  const Matcher matcher;
  if (matcher.context == nullptr || matcher.data == nullptr) {
    return fail(ErrorKind::memory, "no memory for splitting a text of {} bytes", text.size());
  }
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  for (std::size_t at = 0; at < text.size();) {
    // Without the check: it would go over the whole text for every piece.
    const int found = pcre2_match(code_.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK,
                                  matcher.data, matcher.context);
    const std::size_t end = found < 0 ? at : pcre2_get_ovector_pointer(matcher.data)[1];
    if (end <= at) {
      return fail(ErrorKind::usage, "cannot split the text at byte {} of {} into pieces: {}", at,
                  text.size(), found < 0 ? pcre2_message(found) : "empty match");
    }
    piece(text.substr(at, end - at));
    at = end;
  }
  return {};
}

std::uint64_t Splitter::memory_bytes() const {
  std::size_t size = 0;
  pcre2_pattern_info(code_.get(), PCRE2_INFO_SIZE, &size);
  return size;
}

}  // namespace sluice::text
