#include "text/pre_tokenizers.h"

#include <span>

namespace sluice::text {

constexpr std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

// The parts that these expressions have in common. A cut tries them in order; what differs is how
// letters, digits and signs make pieces.
#define SLUICE_ENDINGS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define SLUICE_WORD R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define SLUICE_SIGNS R"( ?[^\s\p{L}\p{N}]+[\r\n]*)"
#define SLUICE_SPACE R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
#define SLUICE_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define SLUICE_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define SLUICE_BEFORE R"([^\r\n\p{L}\p{N}]?)"
#define SLUICE_CJK R"([一-龥ࠀ-一가-퟿]+)"

constexpr std::string_view kLlama3[] = {
    SLUICE_ENDINGS "|" SLUICE_WORD R"(|\p{N}{1,3}|)" SLUICE_SIGNS "|" SLUICE_SPACE};
constexpr std::string_view kQwen2[] = {SLUICE_ENDINGS "|" SLUICE_WORD R"(|\p{N}|)" SLUICE_SIGNS
                                                      "|" SLUICE_SPACE};
constexpr std::string_view kQwen35[] = {
    SLUICE_ENDINGS
    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" SLUICE_SPACE};
constexpr std::string_view kGpt4o[] = {
    SLUICE_BEFORE SLUICE_UPPER "*" SLUICE_LOWER "+" SLUICE_ENDINGS "?|" SLUICE_BEFORE SLUICE_UPPER
                               "+" SLUICE_LOWER "*" SLUICE_ENDINGS
                               R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" SLUICE_SPACE};
constexpr std::string_view kTekken[] = {
    SLUICE_BEFORE SLUICE_UPPER "*" SLUICE_LOWER "+|" SLUICE_BEFORE SLUICE_UPPER "+" SLUICE_LOWER
                               R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" SLUICE_SPACE};
constexpr std::string_view kDeepSeekV3[] = {
    R"(\p{N}{1,3})", R"([一-龥぀-ゟ゠-ヿ]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
    R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)" SLUICE_SPACE};
constexpr std::string_view kDeepSeekLlm[] = {
    R"([\r\n])", R"(\s?\p{L&}+)", R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)",
    R"(\s+$)",   SLUICE_CJK,      R"(\p{N}+)"};
constexpr std::string_view kDeepSeekCoder[] = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                               SLUICE_CJK, R"(\p{N})"};
constexpr std::string_view kSeedCoder[] = {
    SLUICE_ENDINGS "|" SLUICE_WORD R"(|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)" SLUICE_SPACE};
constexpr std::string_view kBailing[] = {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}|)"
                                         R"( ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr std::string_view kGpt2[] = {kGpt2Expression};
constexpr std::string_view kDigitsGpt2[] = {R"(\p{N})", kGpt2Expression};
constexpr std::string_view kFalcon[] = {R"([\p{P}$+<=>^~|`]+)", kGpt2Expression, "[0-9][0-9][0-9]"};
constexpr std::string_view kDefault[] = {R"([\p{P}$+<=>^~|]+)", kGpt2Expression, R"(\p{N}+)",
                                         "[0-9][0-9][0-9]"};
constexpr std::string_view kBloom[] = {R"( ?[^(\s|.,!?…。，、।۔،)]+)"};

struct Named {
  std::string_view names;  // with a space before and behind each
  std::span<const std::string_view> expressions;
  bool whole_pieces;
};
constexpr Named kNamed[] = {
    {" gpt-2 gpt2 phi-2 mpt olmo jais gigachat exaone4 roberta-bpe modern-bert trillion "
     "granite-docling jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code a.x-4.0 "
     "mellum ",
     kGpt2, false},
    {" smollm starcoder refact command-r codeshell exaone minerva-7b ", kDigitsGpt2, false},
    {" llama-bpe llama3 llama-v3 smaug-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 glm4 ", kLlama3,
     true},
    {" dbrx chatglm-bpe ", kLlama3, false},
    {" qwen2 deepseek-r1-qwen megrez stablelm2 hunyuan solar-open kormo grok-2 ", kQwen2, false},
    {" qwen35 ", kQwen35, false},
    {" gpt-4o llama4 kanana2 minimax-m2 ", kGpt4o, true},
    {" tekken ", kTekken, true},
    {" deepseek-v3 hunyuan-dense joyai-llm ", kDeepSeekV3, false},
    {" deepseek-llm ", kDeepSeekLlm, false},
    {" deepseek-coder ", kDeepSeekCoder, false},
    {" seed-coder ", kSeedCoder, false},
    {" bailingmoe bailingmoe2 llada-moe ", kBailing, false},
    {" falcon ", kFalcon, false},
    {" bloom poro-chat gpt3-finnish ", kBloom, false},
    {" default ", kDefault, false},
};

}  // namespace

Result<PreTokenizer> pre_tokenizer_named(std::string_view name, std::string_view file) {
  PreTokenizer made;
  if (name == "kimi-k2") {
    made.kimi = made.whole_pieces = true;
    return made;
  }
  std::string known;
  for (const Named& each : kNamed) {
    known += each.names.substr(1);
    const bool is_word = !name.empty() && name.find(' ') == std::string_view::npos;
    if (!is_word || each.names.find(fmt::format(" {} ", name)) == std::string_view::npos) continue;
    for (const std::string_view expression : each.expressions) {
      made.cuts.push_back({std::string(expression)});
    }
    made.whole_pieces = each.whole_pieces;
    return made;
  }
  return fail(
      ErrorKind::model_files,
      "{}: the pre-tokenizer '{}' is not known, so texts cannot be cut as the model learned "
      "them; known: {}kimi-k2 (token ids still work: --ids)",
      file, name.substr(0, 60), known);
}

}  // namespace sluice::text
