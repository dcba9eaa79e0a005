#include "text/pre_tokenizers.h"

#include <array>

namespace sluice::text {

const std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

constexpr std::string_view kDigit = R"(\p{N})";

// What Llama 3 and Qwen 2 have in common; they differ in how many digits make a piece.
constexpr std::string_view kWords = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";
constexpr std::string_view kRest = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string words(std::string_view digits) {
  return std::string(kWords) + std::string(digits) + std::string(kRest);
}

enum class Kind { gpt2, smollm, llama3, qwen2 };
struct Named {
  std::string_view name;
  Kind kind;
};
constexpr std::array kNamed = {
    Named{"gpt-2", Kind::gpt2},
    Named{"gpt2", Kind::gpt2},
    Named{"smollm", Kind::smollm},
    Named{"llama-bpe", Kind::llama3},
    Named{"llama3", Kind::llama3},
    Named{"llama-v3", Kind::llama3},
    Named{"smaug-bpe", Kind::llama3},
    Named{"qwen2", Kind::qwen2},
    Named{"deepseek-r1-qwen", Kind::qwen2},
};

}  // namespace

Result<PreTokenizer> pre_tokenizer_named(std::string_view name, std::string_view file) {
  std::string known;
  for (const Named& each : kNamed) {
    known += fmt::format(" {}", each.name);
    if (each.name != name) continue;
    switch (each.kind) {
      case Kind::gpt2:
        return PreTokenizer{{std::string(kGpt2Expression)}, false};
      case Kind::smollm:
        return PreTokenizer{{std::string(kDigit), std::string(kGpt2Expression)}, false};
      case Kind::llama3:
        return PreTokenizer{{words(R"(\p{N}{1,3})")}, true};
      case Kind::qwen2:
        return PreTokenizer{{words(kDigit)}, false};
    }
  }
  return fail(
      ErrorKind::model_files,
      "{}: the pre-tokenizer '{}' is not known, so texts cannot be cut as the model learned "
      "them; known:{} (token ids still work: --ids)",
      file, name.substr(0, 60), known);
}

}  // namespace sluice::text
