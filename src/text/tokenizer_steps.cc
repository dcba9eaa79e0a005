#include "text/tokenizer_steps.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/json_fields.h"
#include "text/pre_tokenizers.h"

namespace sluice::text {
namespace {

using Object = nlohmann::json;

constexpr int kDeepest = 8;  // sequences in sequences

class StepReader {
 public:
  StepReader(const Object& root, std::string_view file) : root_(root), file_(file) {}

  Result<TokenizerSteps> read() {
    SLUICE_TRY(add_normalizer(member(root_, "normalizer"), 0));
    SLUICE_TRY(add_pre_tokenizer(member(root_, "pre_tokenizer"), 0));
    SLUICE_TRY(add_decoder(member(root_, "decoder"), 0));
    return std::move(steps_);
  }

 private:
  tl::unexpected<Error> refuse(std::string_view what, std::string_view found) const {
    return fail(ErrorKind::model_files,
                "{}: {}: '{}' is not supported (token ids still work: --ids)", file_, what,
                found.substr(0, 60));
  }

  /// Calls `add` for the members of a sequence.
  template <class Add>
  Status each(const Object& list, std::string_view what, int depth, Add add) {
    if (depth >= kDeepest) return refuse(what, "a Sequence of too many levels");
    for (const Object& one : list) SLUICE_TRY(add(one));
    return {};
  }

  Status add_normalizer(const Object& one, int depth) {
    if (one.is_null()) return {};
    const std::string type = text_of(one, "type");
    if (type == "Sequence") {
      return each(member(one, "normalizers"), "normalizer", depth,
                  [&](const Object& next) { return add_normalizer(next, depth + 1); });
    }
    if (type == "NFC") return add(NormalForm::nfc);
    if (type == "NFD") return add(NormalForm::nfd);
    if (type == "NFKC") return add(NormalForm::nfkc);
    if (type == "NFKD") return add(NormalForm::nfkd);
    if (type == "Prepend") return add(Normalizer::Prepend{text_of(one, "prepend")});
    if (type == "Replace") return add_replace(one);
    if (type == "Strip") {
      return add(Normalizer::Strip{flag_of(one, "strip_left"), flag_of(one, "strip_right")});
    }
    return refuse("normalizer", type);
  }

  Status add_replace(const Object& one) {
    const Object& pattern = member(one, "pattern");
    const std::string content = text_of(one, "content");
    const std::string text = text_of(pattern, "String");
    if (!text.empty()) return add(Normalizer::Replace{text, content});
    const std::string regex = text_of(pattern, "Regex");
    if (regex.empty()) return refuse("normalizer", "a Replace without a pattern");
    SLUICE_ASSIGN(Expression expression, Expression::of_tokenizer(regex, file_));
    return add(Normalizer::ReplaceMatches{std::make_shared<const Expression>(std::move(expression)),
                                          content});
  }

  Status add(Normalizer::Step step) {
    constexpr std::size_t kMostSteps = 32;
    if (++normalizers_ > kMostSteps) return refuse("normalizer", "more than 32 steps");
    steps_.normalizer.add(std::move(step));
    return {};
  }

  Status add_pre_tokenizer(const Object& one, int depth) {
    if (one.is_null()) return {};
    const std::string type = text_of(one, "type");
    if (type == "Sequence") {
      return each(member(one, "pretokenizers"), "pre_tokenizer", depth,
                  [&](const Object& next) { return add_pre_tokenizer(next, depth + 1); });
    }
    using Matches = Cut::Matches;
    if (type == "ByteLevel") return add_byte_level(one);
    if (type == "Metaspace") return add_metaspace(one);
    if (type == "Split") return add_split(one);
    if (type == "Digits") {
      steps_.cuts.push_back({flag_of(one, "individual_digits") ? R"(\p{N})" : R"(\p{N}+)"});
    } else if (type == "Punctuation") {
      SLUICE_ASSIGN(const Matches matches, matches_of(text_of(one, "behavior", "Isolated")));
      steps_.cuts.push_back({R"([!-/:-@\[-`{-~\p{P}])", matches});
    } else if (type == "Whitespace") {
      // Words, as Rust's \w has them, and signs.
      constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control})";
      steps_.cuts.push_back({fmt::format(R"([{0}]+|[^{0}\s]+)", kWord), Matches::removed, true});
    } else if (type == "WhitespaceSplit") {
      steps_.cuts.push_back({R"(\s)", Matches::removed});
    } else if (type == "CharDelimiterSplit" && !text_of(one, "delimiter").empty()) {
      steps_.cuts.push_back({matching(text_of(one, "delimiter")), Matches::removed});
    } else {
      return refuse("pre_tokenizer", type);
    }
    return {};
  }

  Status add_byte_level(const Object& one) {
    steps_.byte_level = true;
    if (flag_of(one, "add_prefix_space", true)) {
      if (!steps_.cuts.empty()) return refuse("pre_tokenizer", "add_prefix_space behind a cut");
      SLUICE_TRY(add(Normalizer::Prepend{" ", true}));
    }
    if (flag_of(one, "use_regex", true)) steps_.cuts.push_back({std::string(kGpt2Expression)});
    return {};
  }

  Status add_metaspace(const Object& one) {
    if (!steps_.cuts.empty()) return refuse("pre_tokenizer", "a Metaspace behind a cut");
    if (text_of(one, "replacement") != kSpaceSign) {
      return refuse("pre_tokenizer", "a Metaspace with another sign than U+2581");
    }
    SLUICE_TRY(add(Normalizer::Replace{" ", std::string(kSpaceSign)}));
    const std::string scheme = prepend_scheme(one);
    if (scheme != "never") {
      SLUICE_TRY(add(Normalizer::Prepend{std::string(kSpaceSign), true, scheme == "first"}));
    }
    if (flag_of(one, "split", true)) {
      steps_.cuts.push_back({std::string(kSpaceSign), Cut::Matches::merged_with_next});
    }
    return {};
  }

  static std::string prepend_scheme(const Object& metaspace) {
    return text_of(metaspace, "prepend_scheme",
                   flag_of(metaspace, "add_prefix_space", true) ? "always" : "never");
  }

  Status add_split(const Object& one) {
    const Object& pattern = member(one, "pattern");
    Cut cut;
    cut.expression = text_of(pattern, "Regex");
    if (cut.expression.empty()) cut.expression = matching(text_of(pattern, "String"));
    if (cut.expression.empty()) return refuse("pre_tokenizer", "a Split without a pattern");
    SLUICE_ASSIGN(cut.matches, matches_of(text_of(one, "behavior")));
    cut.inverted = flag_of(one, "invert");
    steps_.cuts.push_back(std::move(cut));
    return {};
  }

  Result<Cut::Matches> matches_of(std::string_view behavior) const {
    using Matches = Cut::Matches;
    if (behavior == "Isolated") return Matches::isolated;
    if (behavior == "Removed") return Matches::removed;
    if (behavior == "MergedWithPrevious") return Matches::merged_with_previous;
    if (behavior == "MergedWithNext") return Matches::merged_with_next;
    if (behavior == "Contiguous") return Matches::contiguous;
    return refuse("pre_tokenizer: behavior", behavior);
  }

  // The vocabulary gives bytes, so most of what decoders do is done: only what they take away at
  // the begin is left.
  Status add_decoder(const Object& one, int depth) {
    if (one.is_null()) return {};
    const std::string type = text_of(one, "type");
    if (type == "Sequence") {
      return each(member(one, "decoders"), "decoder", depth,
                  [&](const Object& next) { return add_decoder(next, depth + 1); });
    }
    if (type == "ByteLevel" || type == "ByteFallback" || type == "Fuse") return {};
    if (type == "Metaspace" && text_of(one, "replacement") == kSpaceSign) {
      steps_.strips_first_space = prepend_scheme(one) != "never";
      return {};
    }
    if (type == "Replace" && text_of(member(one, "pattern"), "String") == kSpaceSign &&
        text_of(one, "content") == " ") {
      return {};
    }
    if (type == "Strip" && text_of(one, "content") == " " && member(one, "start") == 1 &&
        member(one, "stop") == 0) {
      steps_.strips_first_space = true;
      return {};
    }
    return refuse("decoder", type);
  }

  const Object& root_;
  std::string_view file_;
  TokenizerSteps steps_;
  std::size_t normalizers_ = 0;
};

}  // namespace

Result<TokenizerSteps> read_tokenizer_steps(const Object& root, std::string_view file) {
  return StepReader(root, file).read();
}

std::vector<std::string> read_prefix(const Object& root) {
  std::vector<std::string> names;
  const Object& processor = member(root, "post_processor");
  const bool many = text_of(processor, "type") == "Sequence";
  const Object list = many ? member(processor, "processors") : Object::array({processor});
  for (const Object& each : list) {
    if (text_of(each, "type") != "TemplateProcessing") continue;
    for (const Object& piece : member(each, "single")) {
      const Object& special = member(piece, "SpecialToken");
      if (special.is_null()) break;  // the text itself
      names.push_back(text_of(special, "id"));
    }
  }
  return names;
}

}  // namespace sluice::text
